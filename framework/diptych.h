#pragma once

/// Everything that programs on Diptych's engine need.

#include "framework/autograd/transforms.h"
#include "framework/core/context.h"
#include "framework/core/rng.h"
#include "framework/core/tensor.h"
#include "framework/core/variable.h"
#include "framework/data/dataset.h"
#include "framework/graph/jit.h"
#include "framework/nn/module.h"
#include "framework/ops/attention.h"
#include "framework/ops/creation.h"
#include "framework/ops/einsum.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"
#include "framework/optim/optimizer.h"
