#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/io/onnx/import.h"

/// Models against recorded results, in the layout of the ONNX backend tests: a folder with model.onnx and
/// test_data_set_*/input_N.pb, output_N.pb.
namespace diptych::workloads {

enum class OnnxMode : std::uint8_t { eager, graph };
const char* name_of(OnnxMode mode);

struct CheckOptions {
  std::vector<OnnxMode> modes = {OnnxMode::eager, OnnxMode::graph};
  /// With both modes: every output of one has the bits of the other's.
  bool bitwise = true;
  double rtol = 1e-3;  ///< the ONNX backend tests' own
  double atol = 1e-7;
};

enum class Outcome : std::uint8_t { pass, fail, unsupported, error };
const char* name_of(Outcome outcome);

struct CaseResult {
  std::string folder;
  OnnxMode mode;
  Outcome outcome = Outcome::error;
  double largest_difference = 0;  ///< of all outputs of all data sets
  std::string reason;             ///< empty for a pass
};

/// One result a mode. Throws nothing: what goes wrong is the case's outcome.
std::vector<CaseResult> check_case(const std::filesystem::path& folder, const CheckOptions& options);
/// The same for gradients: beside the model and its first data set lie grad/cotangent_N.pb, one an output, and other
/// grad/*.pb: the gradients of sum(output * cotangent) by the inputs and initializers that their tensors are named
/// after.
std::vector<CaseResult> check_gradients(const std::filesystem::path& folder, const CheckOptions& options);

/// How far `got` is from `wanted`: within atol + rtol |wanted|, element by element; NaN equals NaN. `reason` says what
/// differs first, empty if nothing does.
struct Difference {
  double largest = 0;
  std::string reason;
};
Difference difference(const Tensor& got, const Tensor& wanted, double rtol, double atol);

}  // namespace diptych::workloads
