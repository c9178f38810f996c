// Every pass on the text of a graph: before and after, written by hand. And once more: a pass leaves its own result
// alone.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::passes {
namespace {

struct Texts {
  const char* pass;
  const char* what;
  const char* inputs;
  const char* before;
  const char* after;
};

const std::vector<Texts>& all_texts() {
  static const std::vector<Texts> texts{
      {"constant-folding", "what depends on constants alone is one; what reads an argument stays",
       "%0: f32[2] argument \"x\"",
       "%1: f32[2] = full() {shape=[2], dtype=f32, value=3}\n"
       "%2: f32[2] = mul(%1, %1)\n"
       "%3: f32[2] = add(%0, %2)\n"
       "return %3",
       "const %1: f32[2] = {3, 3}\n"
       "const %2: f32[2] = {9, 9}\n"
       "%3: f32[2] = add(%0, %2)\n"
       "return %3"},
      {"constant-folding", "states and captured tensors are no constants, whatever they hold",
       "%0: f32[2] state \"s\", %1: f32[2] captured \"c\"",
       "%2: f32[2] = mul(%0, %1)\n"
       "return %2",
       "%2: f32[2] = mul(%0, %1)\n"
       "return %2"},
      {"simplify", "times one is nothing; two transposes are one, here none (dce drops what is left over)",
       "%0: f32[2,3] argument \"x\"",
       "const %1: f32[] = {1}\n"
       "%2: f32[2,3] = mul(%0, %1)\n"
       "%3: f32[3,2] = permute(%2) {axes=[1,0]}\n"
       "%4: f32[2,3] = permute(%3) {axes=[1,0]}\n"
       "%5: f32[2,3] = exp(%4)\n"
       "return %5",
       "const %1: f32[] = {1}\n"
       "%2: f32[2,3] = mul(%0, %1)\n"
       "%3: f32[3,2] = permute(%0) {axes=[1,0]}\n"
       "%4: f32[2,3] = permute(%0) {axes=[0,1]}\n"
       "%5: f32[2,3] = exp(%0)\n"
       "return %5"},
      {"simplify", "a product with one number everywhere is one row of it", "%0: f32[3,2] argument \"x\"",
       "const %1: f32[] = {0.5}\n"
       "%2: f32[4,3] = expand(%1) {shape=[4,3]}\n"
       "%3: f32[4,2] = matmul(%2, %0)\n"
       "return %3",
       "const %1: f32[] = {0.5}\n"
       "const %4: f32[] = {0.5}\n"
       "%2: f32[4,3] = expand(%1) {shape=[4,3]}\n"
       "%5: f32[1,3] = expand(%4) {shape=[1,3]}\n"
       "%6: f32[1,2] = matmul(%5, %0)\n"
       "%3: f32[4,2] = expand(%6) {shape=[4,2]}\n"
       "return %3"},
      {"cse", "equal expressions are one, other attributes another", "%0: f32[2,3] argument \"x\"",
       "%1: f32[2,3] = exp(%0)\n"
       "%2: f32[2,3] = exp(%0)\n"
       "%3: f32[2] = sum(%1) {axes=[1], keepdims=false}\n"
       "%4: f32[2] = sum(%2) {axes=[1], keepdims=false}\n"
       "%5: f32[3] = sum(%2) {axes=[0], keepdims=false}\n"
       "return %3, %4, %5",
       "%1: f32[2,3] = exp(%0)\n"
       "%3: f32[2] = sum(%1) {axes=[1], keepdims=false}\n"
       "%5: f32[3] = sum(%1) {axes=[0], keepdims=false}\n"
       "return %3, %3, %5"},
      {"attention", "softmax(scale q k^T) v is one op",
       "%0: f32[2,5,4] argument \"q\", %1: f32[2,6,4] argument \"k\", %2: f32[2,6,3] argument \"v\"",
       "const %3: f32[] = {0.5}\n"
       "%4: f32[2,4,6] = permute(%1) {axes=[0,2,1]}\n"
       "%5: f32[2,5,6] = matmul(%0, %4)\n"
       "%6: f32[2,5,6] = mul(%5, %3)\n"
       "%7: f32[2,5,6] = softmax(%6)\n"
       "%8: f32[2,5,3] = matmul(%7, %2)\n"
       "return %8",
       "const %3: f32[] = {0.5}\n"
       "%4: f32[2,4,6] = permute(%1) {axes=[0,2,1]}\n"
       "%5: f32[2,5,6] = matmul(%0, %4)\n"
       "%6: f32[2,5,6] = mul(%5, %3)\n"
       "%7: f32[2,5,6] = softmax(%6)\n"
       "%9: f32[2,6,4] = permute(%4) {axes=[0,2,1]}\n"
       "%8: f32[2,5,3] = attention(%0, %9, %2) {scale=0.5, is_causal=false}\n"
       "return %8"},
      {"attention", "and so are the gradients by q, k and v where half of the scores are hidden",
       "%0: f32[200,4] argument \"q\", %1: f32[200,4] argument \"k\", %2: f32[200,3] argument \"v\", "
       "%3: f32[200,3] argument \"g\"",
       "%4: f32[4,200] = permute(%1) {axes=[1,0]}\n"
       "%5: f32[200,200] = matmul(%0, %4)\n"
       "%6: f32[200,200] = masked_softmax(%5) {scale=0.5, is_causal=true}\n"
       "%7: f32[200,3] = matmul(%6, %2)\n"
       "%8: f32[200,200] = permute(%6) {axes=[1,0]}\n"
       "%9: f32[200,3] = matmul(%8, %3)\n"
       "%10: f32[3,200] = permute(%2) {axes=[1,0]}\n"
       "%11: f32[200,200] = matmul(%3, %10)\n"
       "%12: f32[200,200] = masked_softmax_backward(%11, %6) {scale=0.5, is_causal=true}\n"
       "%13: f32[200,4] = matmul(%12, %1)\n"
       "%14: f32[4,200] = permute(%0) {axes=[1,0]}\n"
       "%15: f32[4,200] = matmul(%14, %12)\n"
       "return %7, %13, %15, %9",
       "%4: f32[4,200] = permute(%1) {axes=[1,0]}\n"
       "%5: f32[200,200] = matmul(%0, %4)\n"
       "%6: f32[200,200] = masked_softmax(%5) {scale=0.5, is_causal=true}\n"
       "%16: f32[200,4] = permute(%4) {axes=[1,0]}\n"
       "%7: f32[200,3] = attention(%0, %16, %2) {scale=0.5, is_causal=true}\n"
       "%8: f32[200,200] = permute(%6) {axes=[1,0]}\n"
       "%17: f32[200,4] = permute(%4) {axes=[1,0]}\n"
       "%18: f32[2200] = attention_backward(%3, %0, %17, %2) {scale=0.5, is_causal=true, whole_rows=false}\n"
       "%19: f32[800] = slice(%18) {axis=0, start=0, stop=800, step=1}\n"
       "%20: f32[800] = slice(%18) {axis=0, start=800, stop=1600, step=1}\n"
       "%21: f32[600] = slice(%18) {axis=0, start=1600, stop=2200, step=1}\n"
       "%9: f32[200,3] = reshape(%21) {shape=[200,3]}\n"
       "%10: f32[3,200] = permute(%2) {axes=[1,0]}\n"
       "%11: f32[200,200] = matmul(%3, %10)\n"
       "%12: f32[200,200] = masked_softmax_backward(%11, %6) {scale=0.5, is_causal=true}\n"
       "%13: f32[200,4] = reshape(%19) {shape=[200,4]}\n"
       "%14: f32[4,200] = permute(%0) {axes=[1,0]}\n"
       "%22: f32[200,4] = reshape(%20) {shape=[200,4]}\n"
       "%15: f32[4,200] = permute(%22) {axes=[1,0]}\n"
       "return %7, %13, %15, %9"},
      {"attention", "in any order that keeps each value before its use",
       "%0: f32[200,4] argument \"q\", %1: f32[200,4] argument \"k\", %2: f32[200,3] argument \"v\", "
       "%3: f32[200,3] argument \"g\"",
       "%10: f32[3,200] = permute(%2) {axes=[1,0]}\n"
       "%11: f32[200,200] = matmul(%3, %10)\n"
       "%4: f32[4,200] = permute(%1) {axes=[1,0]}\n"
       "%5: f32[200,200] = matmul(%0, %4)\n"
       "%6: f32[200,200] = masked_softmax(%5) {scale=0.5, is_causal=true}\n"
       "%12: f32[200,200] = masked_softmax_backward(%11, %6) {scale=0.5, is_causal=true}\n"
       "%13: f32[200,4] = matmul(%12, %1)\n"
       "%14: f32[4,200] = permute(%0) {axes=[1,0]}\n"
       "%15: f32[4,200] = matmul(%14, %12)\n"
       "%8: f32[200,200] = permute(%6) {axes=[1,0]}\n"
       "%9: f32[200,3] = matmul(%8, %3)\n"
       "%7: f32[200,3] = matmul(%6, %2)\n"
       "return %7, %13, %15, %9",
       "%10: f32[3,200] = permute(%2) {axes=[1,0]}\n"
       "%11: f32[200,200] = matmul(%3, %10)\n"
       "%4: f32[4,200] = permute(%1) {axes=[1,0]}\n"
       "%5: f32[200,200] = matmul(%0, %4)\n"
       "%6: f32[200,200] = masked_softmax(%5) {scale=0.5, is_causal=true}\n"
       "%12: f32[200,200] = masked_softmax_backward(%11, %6) {scale=0.5, is_causal=true}\n"
       "%16: f32[200,4] = permute(%4) {axes=[1,0]}\n"
       "%17: f32[2200] = attention_backward(%3, %0, %16, %2) {scale=0.5, is_causal=true, whole_rows=false}\n"
       "%18: f32[800] = slice(%17) {axis=0, start=0, stop=800, step=1}\n"
       "%19: f32[800] = slice(%17) {axis=0, start=800, stop=1600, step=1}\n"
       "%20: f32[600] = slice(%17) {axis=0, start=1600, stop=2200, step=1}\n"
       "%13: f32[200,4] = reshape(%18) {shape=[200,4]}\n"
       "%14: f32[4,200] = permute(%0) {axes=[1,0]}\n"
       "%21: f32[200,4] = reshape(%19) {shape=[200,4]}\n"
       "%15: f32[4,200] = permute(%21) {axes=[1,0]}\n"
       "%8: f32[200,200] = permute(%6) {axes=[1,0]}\n"
       "%9: f32[200,3] = reshape(%20) {shape=[200,3]}\n"
       "%22: f32[200,4] = permute(%4) {axes=[1,0]}\n"
       "%7: f32[200,3] = attention(%0, %22, %2) {scale=0.5, is_causal=true}\n"
       "return %7, %13, %15, %9"},
      {"merge-products",
       "small products of one input with weights that stay the same, but for one that leaves the graph",
       "%0: f32[2,8] argument \"x\", %1: f32[8,4] state \"q\", %2: f32[4] state \"bias\", %3: f32[6,8] state \"k\", "
       "%4: f32[6] state \"other bias\", %5: f32[8,6] state \"v\"",
       "%6: f32[2,4] = linear(%0, %1, %2)\n"
       "%7: f32[8,6] = permute(%3) {axes=[1,0]}\n"
       "%8: f32[2,6] = linear(%0, %7, %4)\n"
       "%9: f32[2,6] = linear(%0, %5, %4)\n"
       "%10: f32[2,4] = relu(%6)\n"
       "%11: f32[2,6] = neg(%8)\n"
       "return %9, %10, %11",
       "%12: f32[8,6] = permute(%3) {axes=[1,0]}\n"
       "%13: f32[2,10] = merged_linear(%0, %1, %12, %2, %4)\n"
       "%6: f32[2,4] = slice(%13) {axis=1, start=0, stop=4, step=1}\n"
       "%8: f32[2,6] = slice(%13) {axis=1, start=4, stop=10, step=1}\n"
       "%9: f32[2,6] = linear(%0, %5, %4)\n"
       "%10: f32[2,4] = relu(%6)\n"
       "%11: f32[2,6] = neg(%8)\n"
       "return %9, %10, %11"},
      {"dce", "what no result needs goes, inputs and updates stay",
       "%0: f32[2] argument \"x\", %1: f32[2] argument \"unused\", %2: f32[2] state \"s\"",
       "%3: f32[2] = exp(%0)\n"
       "%4: f32[2] = neg(%3)\n"
       "%5: f32[2] = add(%2, %0)\n"
       "update %2 <- %5\n"
       "return %3",
       "%3: f32[2] = exp(%0)\n"
       "%5: f32[2] = add(%2, %0)\n"
       "update %2 <- %5\n"
       "return %3"},
      {"recompute", "a cheap result is made again behind the peak of memory, if its input is there anyway",
       "%0: f32[512,512] argument \"x\", %1: f32[512,512] argument \"y\"",
       "%2: f32[512,512] = matmul(%0, %1)\n"
       "%3: f32[512,512] = relu(%2)\n"
       "%4: f32[512,512] = matmul(%3, %1)\n"
       "%5: f32[512,512] = matmul(%4, %1)\n"
       "%6: f32[512,512] = add(%4, %5)\n"
       "%8: f32[512,512] = matmul(%3, %6)\n"
       "%9: f32[512,512] = add(%8, %2)\n"
       "return %9",
       "%2: f32[512,512] = matmul(%0, %1)\n"
       "%3: f32[512,512] = relu(%2)\n"
       "%4: f32[512,512] = matmul(%3, %1)\n"
       "%5: f32[512,512] = matmul(%4, %1)\n"
       "%6: f32[512,512] = add(%4, %5)\n"
       "%10: f32[512,512] = relu(%2)\n"
       "%8: f32[512,512] = matmul(%10, %6)\n"
       "%9: f32[512,512] = add(%8, %2)\n"
       "return %9"},
      {"check-labels", "one check for the loss and its gradient, in the name of the first",
       "%0: f32[1024,256] argument \"x\", %1: i64[1024] argument \"labels\", %2: f32[1024] argument \"scale\"",
       "%3: f32[1024] = cross_entropy(%0, %1) {label_smoothing=0, ignore_index=-1}\n"
       "%4: f32[1024,256] = cross_entropy_backward(%0, %1, %2) {label_smoothing=0, ignore_index=-1}\n"
       "return %3, %4",
       "%5: i64[1024] = class_labels(%1) {classes=256, ignore_index=-1, op=\"cross_entropy\"}\n"
       "%3: f32[1024] = cross_entropy_of_classes(%0, %5) {label_smoothing=0, ignore_index=-1}\n"
       "%4: f32[1024,256] = cross_entropy_backward_of_classes(%0, %5, %2) {label_smoothing=0, ignore_index=-1}\n"
       "return %3, %4"},
      {"split-sums", "the sum of two ops on a whole tensor is one of rows of 4,096, and one of these",
       "%0: f32[1024,512] argument \"x\"",
       "%1: f32[1024,512] = exp(%0)\n"
       "%2: f32[1024,512] = square(%1)\n"
       "%3: f32[] = sum(%2) {axes=[0,1], keepdims=false}\n"
       "return %3, %1",
       "%4: f32[128,4096] = reshape(%0) {shape=[128,4096]}\n"
       "%5: f32[128,4096] = exp(%4)\n"
       "%1: f32[1024,512] = reshape(%5) {shape=[1024,512]}\n"
       "%6: f32[128,4096] = square(%5)\n"
       "%7: f32[128] = sum(%6) {axes=[1], keepdims=false}\n"
       "%3: f32[] = sum(%7) {axes=[0], keepdims=false}\n"
       "return %3, %1"},
      {"epilogue", "a product and what is elementwise behind it",
       "%0: f32[4,8] argument \"x\", %1: f32[8,4] argument \"w\", %2: f32[4,4] argument \"r\"",
       "%3: f32[4,4] = matmul(%0, %1)\n"
       "%4: f32[4,4] = tanh(%3)\n"
       "%5: f32[4,4] = add(%4, %2)\n"
       "return %5",
       "%5: f32[4,4] = fused(%0, %1, %2) [\n"
       "graph \"fused\"(%0: f32[4,8] argument \"%0\", %1: f32[8,4] argument \"%1\", %2: f32[4,4] argument \"%2\") {\n"
       "%3: f32[4,4] = matmul(%0, %1)\n"
       "%4: f32[4,4] = tanh(%3)\n"
       "%5: f32[4,4] = add(%4, %2)\n"
       "return %5\n} ]\n"
       "return %5"},
      {"multi-tensor", "updates of states by the same ops, whatever their shapes",
       "%0: f32[4] argument \"a\", %1: f32[2,3] argument \"b\", %2: f32[4] state \"v\", %3: f32[2,3] state \"w\"",
       "%4: f32[4] = axpby(%2, %0) {alpha=0.5, beta=1}\n"
       "%5: f32[4] = tanh(%4)\n"
       "%6: f32[2,3] = axpby(%3, %1) {alpha=0.5, beta=1}\n"
       "%7: f32[2,3] = tanh(%6)\n"
       "update %2 <- %5\n"
       "update %3 <- %7\n"
       "return",
       "%5: f32[4], %7: f32[2,3] = fused(%2, %0, %3, %1) [\n"
       "graph \"fused\"(%0: f32[4] argument \"%2\", %1: f32[4] argument \"%0\") {\n"
       "%2: f32[4] = axpby(%0, %1) {alpha=0.5, beta=1}\n"
       "%3: f32[4] = tanh(%2)\n"
       "return %3\n},\n"
       "graph \"fused\"(%0: f32[2,3] argument \"%3\", %1: f32[2,3] argument \"%1\") {\n"
       "%2: f32[2,3] = axpby(%0, %1) {alpha=0.5, beta=1}\n"
       "%3: f32[2,3] = tanh(%2)\n"
       "return %3\n} ]\n"
       "update %2 <- %5\n"
       "update %3 <- %7\n"
       "return"},
      {"fuse", "elementwise ops, of which one is read elsewhere too",
       "%0: f32[4,4] argument \"x\", %1: f32[4] argument \"b\"",
       "%2: f32[4,4] = exp(%0)\n"
       "%3: f32[4,4] = mul(%2, %1)\n"
       "%4: f32[4] = sum(%2) {axes=[0], keepdims=false}\n"
       "return %3, %4",
       "%2: f32[4,4], %3: f32[4,4] = fused(%0, %1) [\n"
       "graph \"fused\"(%0: f32[4,4] argument \"%0\", %1: f32[4] argument \"%1\") {\n"
       "%2: f32[4,4] = exp(%0)\n"
       "%3: f32[4,4] = mul(%2, %1)\n"
       "return %2, %3\n} ]\n"
       "%4: f32[4] = sum(%2) {axes=[0], keepdims=false}\n"
       "return %3, %4"},
      {"fuse", "a softmax that is written by hand, by its rows", "%0: f32[4,8] argument \"x\"",
       "%1: f32[4,1] = max(%0) {axes=[1], keepdims=true}\n"
       "%2: f32[4,8] = sub(%0, %1)\n"
       "%3: f32[4,8] = exp(%2)\n"
       "%4: f32[4,1] = sum(%3) {axes=[1], keepdims=true}\n"
       "%5: f32[4,8] = div(%3, %4)\n"
       "return %5",
       "%5: f32[4,8] = fused(%0) [\n"
       "graph \"fused\"(%0: f32[4,8] argument \"%0\") {\n"
       "%1: f32[4,1] = max(%0) {axes=[1], keepdims=true}\n"
       "%2: f32[4,8] = sub(%0, %1)\n"
       "%3: f32[4,8] = exp(%2)\n"
       "%4: f32[4,1] = sum(%3) {axes=[1], keepdims=true}\n"
       "%5: f32[4,8] = div(%3, %4)\n"
       "return %5\n} ]\n"
       "return %5"},
  };
  return texts;
}

graph::Graph graph_of(const Texts& texts, const char* body) {
  return graph::parse(std::string("graph \"g\"(") + texts.inputs + ") {\n" + body + "\n}");
}

std::string after(const std::string& name, graph::Graph graph) {
  const auto passes = pipeline();
  const auto pass = std::find_if(passes.begin(), passes.end(), [&](const Pass& each) { return each.name == name; });
  PassContext context(graph);
  context.least_fused_bytes = 0;
  context.least_epilogue_bytes = 0;
  pass->run(graph, context);
  graph::verify(graph);
  return graph::print(graph);
}

TEST(PassTexts, BeforeAndAfter) {
  for (const Texts& texts : all_texts()) {
    SCOPED_TRACE(std::string(texts.pass) + ": " + texts.what);
    const graph::Graph expected = graph_of(texts, texts.after);
    EXPECT_EQ(after(texts.pass, graph_of(texts, texts.before)), graph::print(expected));
    EXPECT_EQ(after(texts.pass, expected), graph::print(expected)) << "its own result stays";
  }
}

TEST(PassTexts, EveryPassHasOne) {
  for (const Pass& pass : pipeline()) {
    EXPECT_TRUE(std::any_of(all_texts().begin(), all_texts().end(), [&](const Texts& texts) {
      return std::string(texts.pass) == pass.name && std::string(texts.before) != texts.after;
    })) << pass.name;
  }
}

}  // namespace
}  // namespace diptych::passes
