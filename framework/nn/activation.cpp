#include "framework/nn/activation.h"

#include <fmt/format.h>

#include "framework/nn/layers.h"

namespace diptych::nn {
namespace {

template <class M>
ModulePtr make() {
  return std::make_shared<M>();
}
struct Entry {
  std::string_view name;
  ModulePtr (*make)();
};
constexpr Entry kActivations[] = {{"relu", make<ReLU>},        {"gelu", make<GELU>}, {"gelu_tanh", make<GELUTanh>},
                                  {"silu", make<SiLU>},        {"tanh", make<Tanh>}, {"sigmoid", make<Sigmoid>},
                                  {"identity", make<Identity>}};

}  // namespace

ModulePtr activation_by_name(std::string_view name) {
  std::string names;
  for (const Entry& entry : kActivations) {
    if (entry.name == name) {
      return entry.make();
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  throw Error(fmt::format("activation: there is no '{}'; choose one of {}", name, names));
}

}  // namespace diptych::nn
