#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/io/onnx/import.h"

/// Checks models against recorded results, in the layout of the ONNX backend tests: a folder with model.onnx and
/// test_data_set_*/input_N.pb, output_N.pb.
namespace diptych::workloads {

enum class OnnxMode : std::uint8_t { eager, graph };
const char* name_of(OnnxMode mode);

struct CheckOptions {
  std::vector<OnnxMode> modes = {OnnxMode::eager, OnnxMode::graph};
  /// With both modes: every output has the same bits in both.
  bool bitwise = true;
  double rtol = 1e-3;  ///< for `difference`; the figures of the ONNX backend tests
  double atol = 1e-7;
  bool elementwise = false;  ///< an element beyond its own tolerance fails, too
};

enum class Outcome : std::uint8_t { pass, fail, unsupported, error };
const char* name_of(Outcome outcome);

struct CaseResult {
  std::string folder;
  OnnxMode mode;
  Outcome outcome = Outcome::error;
  double largest_difference = 0;  ///< of all outputs of all data sets
  std::string reason;             ///< empty if it passed
  std::string warning;            ///< what a reader should know even if it passed; mostly empty
  std::int64_t elementwise = 0;   ///< elements beyond their own tolerance
};

/// One result per mode. Doesn't throw: errors become the case's outcome.
std::vector<CaseResult> check_case(const std::filesystem::path& folder, const CheckOptions& options);
/// The same for gradients. Next to the model and its first data set are grad/cotangent_N.pb, one per output, and other
/// grad/*.pb: the gradients of sum(output * cotangent) with respect to the inputs and initializers after which their
/// tensors are named.
std::vector<CaseResult> check_gradients(const std::filesystem::path& folder, const CheckOptions& options);

/// How far `got` is from `wanted`: every element must be within atol + rtol x the largest finite magnitude in `wanted`,
/// because the last places of a sum are those of its terms, however near to zero the result is. Integers have no last
/// places: within atol + rtol x the element's own magnitude. NaN equals NaN. `reason` describes the first difference;
/// empty if there is none. Beside it what numpy.testing.assert_allclose would say, for which the element's own
/// magnitude always counts: how many elements are beyond that, and the first of them.
struct Difference {
  double largest = 0;
  std::string reason;
  std::int64_t elementwise = 0;
  std::string elementwise_reason;
};
Difference difference(const Tensor& got, const Tensor& wanted, double rtol, double atol);

}  // namespace diptych::workloads
