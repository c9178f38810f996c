#pragma once

/// Everything that programs on Diptych's engine need.

#include "framework/autograd/custom.h"
#include "framework/autograd/functional.h"
#include "framework/autograd/hooks.h"
#include "framework/autograd/transforms.h"
#include "framework/core/context.h"
#include "framework/core/rng.h"
#include "framework/core/tensor.h"
#include "framework/core/variable.h"
#include "framework/data/dataset.h"
#include "framework/graph/jit.h"
#include "framework/io/checkpoint.h"
#include "framework/nn/containers.h"
#include "framework/nn/init.h"
#include "framework/nn/layers.h"
#include "framework/nn/loss.h"
#include "framework/nn/module.h"
<<<<<<< HEAD
#include "framework/ops/attention.h"
=======
#include "framework/ops/convolution.h"
>>>>>>> 3c3a6a42beed0230fbf839ba9bac26d91d862bd6
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/inplace.h"
#include "framework/ops/matmul.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/softmax.h"
#include "framework/ops/update.h"
#include "framework/ops/view.h"
#include "framework/optim/clip.h"
#include "framework/optim/optimizer.h"
#include "framework/optim/schedule.h"
