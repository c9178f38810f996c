#include "framework/runtime/executable.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <optional>
#include <sys/sysinfo.h>

#include <fmt/format.h>

#include "framework/codegen/tile_program.h"
#include "framework/core/error.h"
#include "framework/core/parallel.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/element_error.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/kernels/bound_call.h"
#include "framework/runtime/control_runner.h"
#include "framework/runtime/fused_kernel.h"
#include "framework/runtime/memory_plan.h"
#include "framework/runtime/pipeline.h"

namespace diptych::runtime {
namespace {

/// The memory of a plan. Throws Error with its size, where there isn't so much: what the system promises beyond the
/// memory that it has would end the process when it is written.
StorageRef allocate_plan(std::size_t bytes) {
  constexpr double kGibibyte = 1 << 30;
  struct sysinfo machine {};
  const bool is_known = sysinfo(&machine) == 0;
  const double all = static_cast<double>(machine.totalram + machine.totalswap) * machine.mem_unit;
  const auto refusal = [&] {
    return Error(fmt::format("the graph needs {:.1f} GiB for its intermediate results{}; give it smaller inputs",
                             static_cast<double>(bytes) / kGibibyte,
                             is_known ? fmt::format(", of {:.1f} GiB that the machine has", all / kGibibyte) : ""));
  };
  if (is_known && static_cast<double>(bytes) > all) {
    throw refusal();
  }
  try {
    return allocate_storage(bytes);
  } catch (const std::bad_alloc&) {
    throw refusal();
  }
}

}  // namespace

template <class Call>
struct Executable::LoopTask {
  Call call;
  int operands;
  AttributeValue attributes;

  static void run(const void* task) {
    const auto& self = *static_cast<const LoopTask*>(task);
    self.call.run(self.operands, self.attributes.get());
  }
  /// Without the question whether it is worth several threads.
  static void run_small(const void* task) {
    const auto& self = *static_cast<const LoopTask*>(task);
    self.call.loop(self.call.count, self.call.data, self.call.strides, self.attributes.get());
  }
};

struct Executable::KernelTask {
  KernelCall call;
  Operand inputs[kMaxInputs];
  Place places[kMaxInputs + 1];  ///< targets of the operands' pointers to types and strides
  AttributeValue attributes;

  static void run(const void* task) {
    const auto& self = *static_cast<const KernelTask*>(task);
    self.call.op->kernel(self.call);
  }
};

struct Executable::ControlTask {
  explicit ControlTask(const LoweredNode& node, const ExecutableOptions& options) : runner(node, options) {}

  ControlRunner runner;
  std::vector<void*> inputs;
  std::vector<void*> outputs;

  static void run(const void* task) {
    const auto& self = *static_cast<const ControlTask*>(task);
    self.runner.run(self.inputs, self.outputs);
  }
};

struct Executable::FusedTask {
  explicit FusedTask(const LoweredNode& node) : kernel(node), data(kernel.places().size()) {}

  FusedKernel kernel;
  std::vector<void*> data;  ///< of kernel.places()

  static void run(const void* task) {
    const auto& self = *static_cast<const FusedTask*>(task);
    self.kernel.run(self.data.data());
  }
};

/// The results of a contraction go through the program part by part, or after it, if the program can't walk so.
struct Executable::ContractionTask {
  KernelTask kernel;
  std::optional<codegen::TileProgram> program;
  std::vector<void*> data;  ///< of the program's inputs, then outputs
  bool by_parts = false;
  Epilogue epilogue{
      [](const void* self, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
        const auto& task = *static_cast<const ContractionTask*>(self);
        task.program->run_part(task.data.data(), row, rows, column, columns);
      },
      this};

  static void run(const void* task) {
    const auto& self = *static_cast<const ContractionTask*>(task);
    self.kernel.call.op->kernel(self.kernel.call);
    if (!self.by_parts) {
      self.program->run(self.data.data());
    }
  }
};

namespace {

/// The instructions of a window run in any order.
Lifetime in_windows(std::span<const Window> windows, Lifetime lifetime) {
  const auto around = [&](std::uint32_t instruction) {
    const auto next = std::upper_bound(windows.begin(), windows.end(), instruction,
                                       [](std::uint32_t at, const Window& window) { return at < window.first; });
    const Window* const before = next == windows.begin() ? nullptr : &*std::prev(next);
    return before != nullptr && instruction < before->end ? before : nullptr;
  };
  if (const Window* const window = around(lifetime.first)) {
    lifetime.first = window->first;
  }
  if (const Window* const window = around(lifetime.last)) {
    lifetime.last = window->end - 1;
  }
  return lifetime;
}
}  // namespace

Executable::Executable(const graph::Graph& graph, std::span<const Strides> argument_strides,
                       const ExecutableOptions& options)
    : options_(options), planned_(options.plan_memory), inputs_(graph.inputs) {
  for (graph::ValueId output : graph.outputs) {
    output_types_.push_back(graph.types[output]);
  }
  for (const auto& constant : graph.constants) {
    constants_.push_back(constant.second);
  }
  state_is_written_.assign(inputs_.size(), false);
  for (const graph::Update& update : graph.updates) {
    state_is_written_[update.input] = true;
  }

  const Lowered lowered = lower(graph, argument_strides, {options.in_place});
  output_buffers_.resize(output_types_.size());
  for (const Buffer& buffer : lowered.buffers) {
    const auto id = static_cast<std::uint32_t>(buffers_.size());
    BoundBuffer bound;
    bound.buffer = buffer;
    buffers_.push_back(std::move(bound));
    if (buffer.kind == BufferClass::output) {
      output_buffers_[buffer.index] = id;
    }
  }
  for (const LoweredNode& node : lowered.nodes) {
    build(node);
    values_.push_back(node.value);
    origins_.push_back({node.where, node.scope});
  }

  if (planned_ && options.side_by_side) {
    windows_ = find_windows(lowered, thread_count());
    stats_.windows = static_cast<std::uint32_t>(windows_.size());
  }
  std::vector<Lifetime> lifetimes;
  std::vector<std::uint32_t> temporaries;
  for (std::uint32_t id = 0; id < buffers_.size(); ++id) {
    const Buffer& buffer = buffers_[id].buffer;
    if (buffer.kind == BufferClass::temporary && buffer.first != UINT32_MAX) {
      lifetimes.push_back(in_windows(windows_, {buffer.bytes, buffer.first, buffer.last}));
      temporaries.push_back(id);
      stats_.temporary_bytes += buffer.bytes;
    }
    if (buffer.kind == BufferClass::constant) {
      bind(buffers_[id], constants_[buffer.index].body()->data);
    }
  }
  const MemoryPlan plan = plan_memory(lifetimes);
  stats_.instructions = static_cast<std::uint32_t>(instructions_.size());
  stats_.allocations = static_cast<std::uint32_t>(output_types_.size());
  stats_.lower_bound_bytes += plan.lower_bound;
  if (planned_) {
    stats_.planned_peak_bytes += plan.peak;
    stats_.heuristic = plan.heuristic;
    arena_ = allocate_plan(plan.peak);
    std::size_t behind = plan.peak;
    for (PlannedTemporary& of_region : planned_temporaries_) {
      of_region.offset = behind;
      behind += of_region.bytes;
    }
    for (std::size_t i = 0; i < temporaries.size(); ++i) {
      bind(buffers_[temporaries[i]], static_cast<std::byte*>(arena_->data()) + plan.offsets[i]);
      planned_temporaries_.push_back({lifetimes[i].bytes, plan.offsets[i], lifetimes[i].first, lifetimes[i].last});
    }
  } else {
    stats_.allocations += static_cast<std::uint32_t>(temporaries.size());
    starts_.resize(instructions_.size());
    ends_.resize(instructions_.size());
    for (std::uint32_t id : temporaries) {
      starts_[buffers_[id].buffer.first].push_back(id);
      ends_[buffers_[id].buffer.last].push_back(id);
    }
  }
}

Executable::~Executable() = default;

void Executable::build_control(const LoweredNode& node) {
  auto task = std::make_unique<ControlTask>(node, options_);
  task->inputs.resize(node.inputs.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    buffers_[node.inputs[i].buffer].slots.push_back({&task->inputs[i], node.inputs[i].offset});
  }
  task->outputs.resize(node.outputs.size());
  for (std::size_t i = 0; i < task->outputs.size(); ++i) {
    const Place& output = node.outputs[i];
    buffers_[output.buffer].slots.push_back({&task->outputs[i], output.offset});
  }
  for (const auto& region : task->runner.regions()) {
    stats_.planned_peak_bytes += region->stats().planned_peak_bytes;
    if (const auto instruction = static_cast<std::uint32_t>(instructions_.size());
        region->stats().planned_peak_bytes > 0) {
      planned_temporaries_.push_back({region->stats().planned_peak_bytes, 0, instruction, instruction});
    }
    stats_.lower_bound_bytes += region->stats().lower_bound_bytes;
    stats_.temporary_bytes += region->stats().temporary_bytes;
  }
  labels_.push_back(&node.op->label);
  source_ops_.push_back(node.source_op);
  instructions_.push_back({ControlTask::run, task.get()});
  control_tasks_.push_back(std::move(task));
}

void Executable::build_fused(const LoweredNode& node) {
  auto task = std::make_unique<FusedTask>(node);
  for (std::size_t i = 0; i < task->data.size(); ++i) {
    add_slot(task->kernel.places()[i], task->data[i]);
  }
  labels_.push_back(&node.op->label);
  source_ops_.push_back(node.source_op);
  instructions_.push_back({FusedTask::run, task.get()});
  fused_tasks_.push_back(std::move(task));
}

void Executable::build_contraction(const LoweredNode& node) {
  const graph::Graph& region = *node.regions[0];
  const graph::Node& contraction = *graph::contraction_of(region);
  RegionSteps steps(region, node.inputs, node.outputs);
  auto task = std::make_unique<ContractionTask>();
  std::vector<Place> inputs;
  for (const graph::ValueId value : contraction.inputs) {
    const auto found = std::find_if(region.inputs.begin(), region.inputs.end(),
                                    [&](const graph::Input& input) { return input.value == value; });
    inputs.push_back(node.inputs[static_cast<std::size_t>(found - region.inputs.begin())]);
  }
  const Place& product = steps.places[0];
  bind_kernel(task->kernel, *contraction.op, contraction.attributes, inputs, product);
  add_pointers(task->kernel, inputs, product);
  const int column_axes = contraction.op->epilogue_axes;
  task->by_parts = codegen::TileProgram::fits_parts(column_axes, steps.inputs, product.type.shape);
  if (task->by_parts) {
    task->kernel.call.epilogue = &task->epilogue;
    task->program =
        codegen::TileProgram::by_parts(column_axes, std::move(steps.inputs), std::move(steps.steps), steps.outputs);
  } else {
    task->program.emplace(RowLayout{}, std::move(steps.inputs), std::move(steps.steps), steps.outputs);
  }
  task->data.resize(steps.places.size());
  for (std::size_t i = 0; i < task->data.size(); ++i) {
    add_slot(steps.places[i], task->data[i]);
  }
  pack_where_it_pays(task->kernel, inputs);
  labels_.push_back(&node.op->label);
  source_ops_.push_back(node.source_op);
  instructions_.push_back({ContractionTask::run, task.get()});
  contraction_tasks_.push_back(std::move(task));
}

void Executable::bind_kernel(KernelTask& task, const OpDef& op, const AttributeValue& attributes,
                             std::span<const Place> inputs, const Place& output) {
  const std::size_t count = inputs.size();
  task.attributes = attributes;
  for (std::size_t i = 0; i < count; ++i) {
    task.places[i] = inputs[i];
    task.inputs[i] = {nullptr, &task.places[i].type, &task.places[i].strides, inputs[i].contiguous};
  }
  task.places[count] = output;
  task.call = {&op,
               task.inputs,
               static_cast<int>(count),
               task.attributes.get(),
               {nullptr, &task.places[count].type, &task.places[count].strides, output.contiguous}};
}

void Executable::add_pointers(KernelTask& task, std::span<const Place> inputs, const Place& output) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    add_slot(inputs[i], task.inputs[i].data);
  }
  add_slot(output, task.call.output.data);
}

void Executable::pack_where_it_pays(KernelTask& task, std::span<const Place> inputs) {
  const Packing* const packing = task.call.op->packing;
  if (packing == nullptr || !options_.packs) {
    return;
  }
  const auto lasts = [&](std::uint32_t buffer) {
    return buffers_[buffer].buffer.kind == BufferClass::constant ||
           (buffer < inputs_.size() && inputs_[buffer].kind != graph::InputKind::argument &&
            !state_is_written_[buffer]);
  };
  Packed packed{&task, {}, 0};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (((packing->inputs >> i) & 1U) != 0) {
      if (!lasts(inputs[i].buffer)) {
        return;
      }
      packed.sources.push_back({i, inputs[i].buffer});
    }
  }
  packed.bytes = packing->size(task.call);
  if (packed.bytes > 0) {
    stats_.packed_bytes += packed.bytes;
    packed_.push_back(std::move(packed));
  }
}

void Executable::build(const LoweredNode& node) {
  if (node.op == &graph::fused_op()) {
    graph::contraction_of(*node.regions[0]) != nullptr ? build_contraction(node) : build_fused(node);
    return;
  }
  if (!node.regions.empty()) {
    build_control(node);
    return;
  }
  const std::size_t count = node.inputs.size();
  auto task = std::make_unique<KernelTask>();
  bind_kernel(*task, *node.op, node.attributes, node.inputs, node.output());
  labels_.push_back(&node.op->label);
  source_ops_.push_back(node.source_op);
  const auto add_loop = [&](auto& tasks, auto&& bound) {
    for (std::size_t i = 0; i < count; ++i) {
      add_slot(node.inputs[i], bound->call.data[i]);
    }
    add_slot(node.output(), bound->call.data[count]);
    bound->operands = static_cast<int>(count) + 1;
    bound->attributes = node.attributes;
    instructions_.push_back({std::remove_cvref_t<decltype(*bound)>::run, bound.get()});
    tasks.push_back(std::forward<decltype(bound)>(bound));
  };
  if (node.op->elementwise()) {
    auto linear = std::make_unique<LinearTask>();
    if (node.output().contiguous && kernels::bind(task->call, linear->call)) {
      const bool is_small =
          static_cast<double>(linear->call.count) * kNanosecondsOfScalar < 2 * kLeastNanosecondsOfPart;
      add_loop(linear_tasks_, std::move(linear));
      if (is_small) {
        instructions_.back().run = LinearTask::run_small;
      }
      return;
    }
  }
  if (node.op->elementwise() && !node.op->own_walk) {
    auto strided = std::make_unique<StridedTask>();
    kernels::bind(task->call, strided->call);
    add_loop(strided_tasks_, std::move(strided));
    return;
  }
  add_pointers(*task, node.inputs, node.output());
  pack_where_it_pays(*task, node.inputs);
  instructions_.push_back({KernelTask::run, task.get()});
  kernel_tasks_.push_back(std::move(task));
}

void Executable::bind(BoundBuffer& buffer, void* pointer) {
  if (buffer.pointer == pointer) {
    return;
  }
  buffer.pointer = pointer;
  for (const Slot& slot : buffer.slots) {
    *slot.location = static_cast<std::byte*>(pointer) + slot.offset;
  }
}

void Executable::bind_inputs(std::span<const Tensor> arguments) {
  std::size_t next_argument = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const graph::Input& input = inputs_[i];
    BoundBuffer& buffer = buffers_[i];  // lowering creates the inputs first, in order
    if (input.kind == graph::InputKind::argument) {
      const TensorBody& argument = *arguments[next_argument++].body();
      make_ready(argument);
      bind(buffer, argument.data);
      continue;
    }
    if (input.kind == graph::InputKind::captured) {
      make_ready(*input.tensor.body());
      bind(buffer, input.tensor.body()->data);
      continue;
    }
    Tensor& value = input.variable.state()->value;
    TensorBody* body = value.body();
    make_ready(*body);
    // Other holders of this tensor, or of a view of it, must not see it change.
    if (state_is_written_[i] && !(body->references.unique() && body->storage->references.unique())) {
      Tensor own = Tensor::empty(body->type.dtype, body->type.shape);
      std::memcpy(own.body()->data, body->data, buffer.buffer.bytes);
      value = std::move(own);
      body = value.body();
    }
    if (state_is_written_[i]) {
      body->storage->packing.store(0, std::memory_order_relaxed);
    }
    bind(buffer, body->data);
  }
}

Storage* Executable::lasting_storage(std::uint32_t buffer) const {
  const Buffer& of = buffers_[buffer].buffer;
  if (of.kind == BufferClass::constant) {
    return constants_[of.index].body()->storage.get();
  }
  const graph::Input& input = inputs_[buffer];
  const Tensor& value = input.kind == graph::InputKind::captured ? input.tensor : input.variable.state()->value;
  return value.body()->storage.get();
}

Executable::Elements Executable::look_at(Packed::Source& source, const void* data) const {
  static std::atomic<std::uint32_t> last_number = 0;
  Storage* const storage = lasting_storage(source.buffer);
  if (storage == nullptr) {  // the elements belong to somebody else, who may change them
    return Elements::not_ours;
  }
  std::uint32_t number = storage->packing.load(std::memory_order_relaxed);
  if (source.data == data && source.number == number && number != 0) {
    return Elements::same;
  }
  const std::uint32_t next = ++last_number;
  if (number == 0 && storage->packing.compare_exchange_strong(number, next, std::memory_order_relaxed)) {
    number = next;
  }
  source.number = number;
  source.data = data;
  return Elements::changed;
}

void Executable::pack_inputs() {
  for (Packed& packed : packed_) {
    KernelCall& call = packed.task->call;
    Elements elements = Elements::same;
    for (Packed::Source& source : packed.sources) {
      elements = std::max(elements, look_at(source, call.inputs[source.input].data));
    }
    if (elements != Elements::same) {
      call.packed = nullptr;
      if (elements == Elements::not_ours || packed.memory) {
        continue;
      }
    }
    if (call.packed == nullptr) {
      if (!packed.memory) {
        packed.memory = allocate_storage(packed.bytes);
      }
      call.op->packing->pack(call, packed.memory->data());
      call.packed = packed.memory->data();
    }
  }
}

template <bool traced>
void Executable::execute(std::uint32_t instruction) const {
  try {
    if constexpr (traced) {
      const trace::Zone zone(labels_[instruction], source_ops_[instruction]);
      instructions_[instruction].run(instructions_[instruction].task);
    } else {
      instructions_[instruction].run(instructions_[instruction].task);
    }
  } catch (ElementError& error) {
    error.locate(origins_[instruction].where, origins_[instruction].module);
    throw;
  }
}

template <bool traced>
void Executable::execute_windows() {
  std::uint32_t next = 0;
  const auto execute_to = [&](std::uint32_t end) {
    for (; next < end; ++next) {
      execute<traced>(next);
    }
  };
  for (const Window& window : windows_) {
    execute_to(window.first);
    const auto count = static_cast<std::int64_t>(window.strands.size());
    parallel_for(count, window.nanoseconds / static_cast<double>(count), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t strand = first; strand < last; ++strand) {
        for (const std::uint32_t instruction : window.strands[static_cast<std::size_t>(strand)]) {
          execute<traced>(instruction);
        }
      }
    });
    next = window.end;
  }
  execute_to(static_cast<std::uint32_t>(instructions_.size()));
}

template <bool planned, bool traced>
void Executable::execute() {
  for (std::size_t i = 0; i < instructions_.size(); ++i) {
    if constexpr (!planned) {
      for (std::uint32_t id : starts_[i]) {
        BoundBuffer& temporary = buffers_[id];
        temporary.storage = allocate_storage(temporary.buffer.bytes);
        bind(temporary, temporary.storage->data());
      }
    }
    execute<traced>(static_cast<std::uint32_t>(i));
    if constexpr (!planned) {
      for (std::uint32_t id : ends_[i]) {
        buffers_[id].storage = StorageRef();
      }
    }
  }
}

void Executable::run(std::span<const Tensor> arguments, std::vector<Tensor>& outputs) {
  const CallLock::Scope turn(turns_);
  if (!turn.is_first()) {
    throw Error("this graph is already running on this thread", Location(), "don't call it from within itself");
  }
  synchronize();  // so that no launch holds a state: states are written in place only if nothing else holds them
  bind_inputs(arguments);
  pack_inputs();
  const std::size_t first = outputs.size();
  for (std::size_t i = 0; i < output_types_.size(); ++i) {
    Tensor output = Tensor::empty(output_types_[i].dtype, output_types_[i].shape);
    bind(buffers_[output_buffers_[i]], output.body()->data);
    outputs.push_back(std::move(output));
  }
  const bool traced = trace::hooks() != nullptr;
  try {
    if (!windows_.empty() && thread_count() > 1) {
      traced ? execute_windows<true>() : execute_windows<false>();
    } else if (planned_) {
      traced ? execute<true, true>() : execute<true, false>();
    } else {
      traced ? execute<false, true>() : execute<false, false>();
    }
  } catch (...) {
    outputs.resize(first);
    if (!planned_) {
      for (BoundBuffer& buffer : buffers_) {
        buffer.storage = StorageRef();
      }
    }
    throw;
  }
}

}  // namespace diptych::runtime
