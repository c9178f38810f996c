// A test holds the list to the headers, and the ops to what a capture of each function records.

#include "cli/composed_functions.h"

#include <array>

namespace diptych::reports {
namespace {

constexpr std::array kComposed = {
    ComposedFunction{"adaptive_avg_pool1d", "adaptive_avg_pool2d of [N, C, L]", "reshape, adaptive_avg_pool2d"},
    ComposedFunction{"adaptive_max_pool1d", "adaptive_max_pool2d of [N, C, L]", "reshape, adaptive_max_pool2d"},
    ComposedFunction{"add_", "x += value, in place", "add, and what puts views together"},
    ComposedFunction{"avg_pool1d", "avg_pool2d of [N, C, L]", "reshape, avg_pool2d"},
    ComposedFunction{"bernoulli", "1 with a probability, else 0", "random_bernoulli or random_bernoulli_of"},
    ComposedFunction{"bmm", "matmul of two stacks of matrices, without broadcasting", "matmul"},
    ComposedFunction{"chunk", "At most so many pieces of equal size along an axis", "slice"},
    ComposedFunction{"contiguous", "x itself if it is dense, else a dense copy", "copy"},
    ComposedFunction{"conv1d", "conv2d of [N, C, L]", "reshape, conv2d"},
    ComposedFunction{"conv3d", "The 3-d convolution of x[N, C, D, H, W]", "conv2d of planes, add"},
    ComposedFunction{"conv3d_input_gradient", "The transpose of conv3d in x", "conv2d_input_gradient of planes, add"},
    ComposedFunction{"copy_", "x = value, in place", "expand, and what puts views together"},
    ComposedFunction{"div_", "x /= value, in place", "div, and what puts views together"},
    ComposedFunction{"dot", "The sum of the products of two vectors", "matmul"},
    ComposedFunction{"dropout", "Zeroes elements at random while training, and scales the others",
                     "random_bernoulli, masked_scale"},
    ComposedFunction{"einsum", "Sums of products by an equation such as \"bij,bjk->bik\"",
                     "permute, reshape, mul, sum, matmul"},
    ComposedFunction{"fill_", "All elements become a number, in place", "full, and what puts views together"},
    ComposedFunction{"flatten", "Some neighbouring axes merged into one", "reshape"},
    ComposedFunction{"full_like", "A tensor of one value, with the type of another", "full"},
    ComposedFunction{"global_avg_pool1d", "The mean over L of [N, C, L]", "sum, div"},
    ComposedFunction{"global_avg_pool2d", "The mean over H and W of [N, C, H, W]", "sum, div"},
    ComposedFunction{"global_max_pool1d", "The largest over L of [N, C, L]", "reshape, adaptive_max_pool2d"},
    ComposedFunction{"global_max_pool2d", "The largest over H and W of [N, C, H, W]", "adaptive_max_pool2d"},
    ComposedFunction{"group_norm", "Normalises groups of neighbouring channels [Wu & He 2018]",
                     "reshape, layer_norm, mul, add"},
    ComposedFunction{"l1_loss", "The distance of two tensors, element by element", "sub, abs, sum, div"},
    ComposedFunction{"masked_fill", "x with a number where a mask holds", "full, where"},
    ComposedFunction{"max_pool1d", "max_pool2d of [N, C, L]", "reshape, max_pool2d"},
    ComposedFunction{"mean", "The mean of the elements", "sum, div"},
    ComposedFunction{"mse_loss", "The squared distance of two tensors, element by element", "sub, square, sum, div"},
    ComposedFunction{"mul_", "x *= value, in place", "mul, and what puts views together"},
    ComposedFunction{"nll_loss", "-log_probabilities[label]", "gather, neg, sum, div"},
    ComposedFunction{"norm", "(sum of the magnitudes to the power p) to the power 1 / p",
                     "square, sum, sqrt; or abs, pow"},
    ComposedFunction{"normal", "Normal numbers", "random_normal"},
    ComposedFunction{"ones", "A tensor of ones", "full"},
    ComposedFunction{"ones_like", "Ones, with the type and shape of another tensor", "full"},
    ComposedFunction{"outer", "All products of two vectors' elements", "reshape, mul"},
    ComposedFunction{"rand", "Numbers in [0, 1)", "random_uniform"},
    ComposedFunction{"rand_like", "The same, with the type and shape of another tensor", "random_uniform"},
    ComposedFunction{"randint", "Whole numbers in [low, high)", "random_integers"},
    ComposedFunction{"randn", "Normal numbers with mean 0 and deviation 1", "random_normal"},
    ComposedFunction{"randn_like", "The same, with the type and shape of another tensor", "random_normal"},
    ComposedFunction{"randperm", "0 to count - 1 in random order", "random_permutation"},
    ComposedFunction{"roll", "Elements moved along axes, those that leave come in at the other end", "slice, concat"},
    ComposedFunction{
        "scaled_dot_product_attention", "softmax(scale q k^T + mask) v [Vaswani et al. 2017]",
        "attention; or permute, matmul, masked_softmax, where a mask is of another type, or weights are kept"},
    ComposedFunction{"select", "The elements at one index of an axis, which is dropped", "slice, reshape"},
    ComposedFunction{"smooth_l1_loss", "huber_loss / beta", "huber_loss, sum, div"},
    ComposedFunction{"sort", "The sorted elements of an axis, and their positions", "argsort, gather"},
    ComposedFunction{"split", "Pieces along an axis, of one size or of given sizes", "slice"},
    ComposedFunction{"squeeze", "Without one axis of length 1, or without all", "reshape"},
    ComposedFunction{"stack", "Tensors of one shape along a new axis", "reshape, concat"},
    ComposedFunction{"sub_", "x -= value, in place", "sub, and what puts views together"},
    ComposedFunction{"take", "The elements at positions counted row-major", "reshape, index_select"},
    ComposedFunction{"tile", "Copies along axes", "reshape, expand"},
    ComposedFunction{"topk", "The k largest or smallest elements of an axis, and their positions",
                     "topk_indices, gather"},
    ComposedFunction{"transpose", "Two axes swapped", "permute"},
    ComposedFunction{"truncated_normal", "Normal numbers within bounds", "random_truncated_normal"},
    ComposedFunction{"unbind", "The slices at every index of an axis, which is dropped", "slice, reshape"},
    ComposedFunction{"uniform", "Numbers in [low, high)", "random_uniform"},
    ComposedFunction{"unsqueeze", "With a new axis of length 1", "reshape"},
    ComposedFunction{"zero_", "All elements become 0, in place", "full, and what puts views together"},
    ComposedFunction{"zeros", "A tensor of zeros", "full"},
    ComposedFunction{"zeros_like", "Zeros, with the type and shape of another tensor", "full"}};

}  // namespace

std::span<const ComposedFunction> composed_functions() { return kComposed; }

}  // namespace diptych::reports
