#include "framework/transforms/readiness.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/core/variable.h"
#include "framework/dispatch/apply.h"
#include "framework/transforms/jit.h"

namespace diptych::graph {
namespace {

/// One op of a call.
struct Applied {
  const OpDef* op;
  std::string attributes;
  Location where;
};
/// A tensor that the call didn't make and wasn't given.
struct Outside {
  Tensor tensor;
  Tensor elements;     ///< as they were
  std::size_t reader;  ///< index of the op
};

/// Views, and what the tape hands back, are other bodies of the same storage.
const void* identity_of(const TensorBody& body) {
  return body.storage ? static_cast<const void*>(body.storage.get()) : body.data;
}

/// Each obstacle once for each line.
class Findings {
 public:
  void add(Finding finding) {
    const bool known = std::any_of(all_.begin(), all_.end(), [&](const Finding& other) {
      return other.obstacle == finding.obstacle && other.where.line == finding.where.line &&
             std::string_view(other.where.file) == finding.where.file;
    });
    if (!known) {
      all_.push_back(std::move(finding));
    }
  }
  /// One without a line.
  void append(Finding finding) { all_.push_back(std::move(finding)); }
  const std::vector<Finding>& all() const { return all_; }

 private:
  std::vector<Finding> all_;
};

/// Runs ops as eager does, and notes what a capture couldn't.
class Marking final : public Interpreter {
 public:
  explicit Marking(std::span<const Tensor> arguments) : Interpreter(nullptr, true) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      mark(arguments[i], fmt::format("argument {}", i));
    }
  }

  Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes,
               Location where) override {
    for (const Tensor* input : inputs) {
      if (input->defined() && !made_.contains(identity_of(*input->body())) &&
          seen_.insert(identity_of(*input->body())).second) {
        outside_.push_back({*input, dense_copy(*input), applied_.size()});
      }
    }
    applied_.push_back({&op, AttributeValue(op.attributes, attributes).print(), where});
    Tensor result = apply_eager(op, inputs, attributes, where);
    mark(result, fmt::format("the result of {} at {}", op.name, to_string(where)));
    return result;
  }

  void note_read(const TensorBody& body, const char* what, Location where) override {
    const auto found = made_.find(identity_of(body));
    if (found == made_.end()) {
      return;  // from outside: a capture may read it, too
    }
    const bool is_branch = body.type.dtype == DType::boolean && body.numel == 1;
    findings_.add(
        {Obstacle::host_read, fmt::format("{} reads {}, {}", what, to_string(body.type), found->second), where,
         is_branch
             ? "a branch on elements: choose values with where(), or branch with cond(), or loop with while_loop()"
             : "return it and read it outside of the function, or compute with it as a tensor"});
  }

  const std::vector<Applied>& applied() const { return applied_; }
  const std::vector<Outside>& outside() const { return outside_; }
  const std::vector<Finding>& findings() const { return findings_.all(); }

 private:
  void mark(const Tensor& tensor, std::string origin) {
    held_.push_back(tensor);  // or another could get its address
    made_.emplace(identity_of(*tensor.body()), std::move(origin));
  }

  std::vector<Tensor> held_;
  std::unordered_map<const void*, std::string> made_;  ///< what the call was given or made, and how
  std::set<const void*> seen_;
  std::vector<Applied> applied_;
  std::vector<Outside> outside_;
  Findings findings_;
};

/// What a call read and computed.
struct Call {
  Marking marking;
  std::vector<VariableRead> variables;

  Call(const CapturedFunction& function, std::span<const Tensor> arguments) : marking(arguments) {
    const VariableReads reads;
    const EagerScope scope;  // until its end, with an interpreter of its own
    thread_context.interpreter = &marking;
    function(arguments);
    variables = reads.reads();
  }

  bool is_variable(const Tensor& tensor) const {
    return std::any_of(variables.begin(), variables.end(), [&](const VariableRead& read) {
      const void* const identity = identity_of(*tensor.body());
      return identity_of(*read.value.body()) == identity ||
             identity_of(*read.variable.state()->value.body()) == identity;
    });
  }
};

std::string line_of(const Applied& applied) {
  return fmt::format("{} at {}", applied.op->name, to_string(applied.where));
}

void compare_paths(const Call& first, const Call& second, Findings& into) {
  const std::vector<Applied>& a = first.marking.applied();
  const std::vector<Applied>& b = second.marking.applied();
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size() || a[i].op != b[i].op || a[i].where.line != b[i].where.line) {
      into.add({Obstacle::path,
                fmt::format("op {} is {} in the first call and {} in the second", i,
                            i < a.size() ? line_of(a[i]) : "none", i < b.size() ? line_of(b[i]) : "none"),
                i < b.size() ? b[i].where : a[i].where,
                "what chooses the path must be an argument's type, or cond(), while_loop() or scan()"});
      return;  // behind it, ops don't correspond
    }
    if (a[i].attributes != b[i].attributes) {
      into.add({Obstacle::number,
                fmt::format("{} has {{{}}} in the first call and {{{}}} in the second", a[i].op->name, a[i].attributes,
                            b[i].attributes),
                b[i].where, "a number of the host that changes: pass it as a tensor, or keep it in a Variable"});
    }
  }
}

void compare_outside(const Call& first, const Call& second, Findings& into) {
  const std::vector<Outside>& a = first.marking.outside();
  const std::vector<Outside>& b = second.marking.outside();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool is_same = a[i].reader != b[i].reader ||
                         identity_of(*a[i].tensor.body()) == identity_of(*b[i].tensor.body()) ||
                         first.is_variable(a[i].tensor) || second.is_variable(b[i].tensor) ||
                         bitwise_equal(a[i].elements, b[i].elements);
    if (!is_same) {
      const Applied& reader = second.marking.applied()[b[i].reader];
      into.add({Obstacle::untracked_state,
                fmt::format("{} reads {}, which is neither an argument nor a Variable, and another in each call",
                            reader.op->name, to_string(b[i].tensor.type())),
                reader.where, "keep it in a Variable, or pass it as an argument"});
    }
  }
}

/// Of two calls with arguments of the same types.
void note_recompilations(std::span<const Compilation> ledger, Findings& into) {
  for (const Compilation& line : ledger.subspan(1)) {
    into.append({Obstacle::recompile,
                 fmt::format("arguments of the same types are compiled anew: {}", line.cause),
                 {},
                 "each value is compiled once: don't change it between calls, or pass it as a tensor"});
  }
}

}  // namespace

std::string_view name_of(Obstacle obstacle) {
  static constexpr std::string_view names[] = {"host read",       "path",      "number",
                                               "untracked state", "recompile", "capture"};
  return names[static_cast<std::size_t>(obstacle)];
}

std::vector<Finding> find_obstacles(const CapturedFunction& function, std::span<const Tensor> first,
                                    std::span<const Tensor> second) {
  const Call before(function, first);
  const Call after(function, second);
  Findings all;
  for (const Call* call : {&before, &after}) {
    for (const Finding& finding : call->marking.findings()) {
      all.add(finding);
    }
  }
  bool same_types = first.size() == second.size();
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].type() != second[i].type()) {
      same_types = false;
      all.append({Obstacle::recompile,
                  fmt::format("argument {} is {}, then {}", i, to_string(first[i].type()), to_string(second[i].type())),
                  {},
                  "each type is compiled once: pad to a few sizes if there are many"});
    }
  }
  if (same_types) {
    compare_paths(before, after, all);
    compare_outside(before, after, all);
  }
  try {
    JitFunction compiled([&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return function(arguments); },
                         {});
    compiled.call(first, {});
    compiled.call(second, {});
    if (same_types) {
      note_recompilations(compiled.ledger(), all);
    }
  } catch (const CaptureError& error) {
    const bool is_known = std::any_of(all.all().begin(), all.all().end(),
                                      [](const Finding& finding) { return finding.obstacle == Obstacle::host_read; });
    if (!is_known) {
      all.append({Obstacle::capture, error.what(), {}, "see the message"});
    }
  }
  return all.all();
}

}  // namespace diptych::graph
