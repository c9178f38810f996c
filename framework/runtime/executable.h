#pragma once

#include <memory>

#include "framework/core/call_lock.h"
#include "framework/core/storage.h"
#include "framework/core/trace_points.h"
#include "framework/runtime/lowering.h"
#include "framework/runtime/side_by_side.h"

namespace diptych::kernels {
struct LinearCall;
struct StridedCall;
}  // namespace diptych::kernels

namespace diptych::runtime {

struct ExecutableOptions {
  bool plan_memory = true;
  bool in_place = true;
  bool packs = true;         ///< inputs that stay the same (OpDef::packing)
  bool side_by_side = true;  ///< on several threads, with planned memory (side_by_side.h)
};

/// The exact cost of a compiled graph.
struct ExecutableStats {
  std::uint32_t instructions = 0;      ///< kernel launches per call; control flow is one, without those of its regions
  std::uint32_t allocations = 0;       ///< blocks per call: outputs, and temporaries if memory isn't planned
  std::size_t planned_peak_bytes = 0;  ///< of the arena and those of regions; 0 if memory isn't planned
  std::size_t lower_bound_bytes = 0;   ///< the most bytes of temporaries alive at any time
  std::size_t temporary_bytes = 0;     ///< the sum over all temporaries
  std::uint32_t windows = 0;           ///< of instructions side by side; 0 if this was compiled for one thread
  std::size_t packed_bytes = 0;        ///< of operands that are packed once; kept between calls
  const char* heuristic = "";          ///< the one that placed them
};

/// A temporary in the arena, or the arena of a loop's or a branch's body, which lies behind it.
struct PlannedTemporary {
  std::size_t bytes;
  std::size_t offset;
  std::uint32_t first;  ///< the instruction that writes it
  std::uint32_t last;   ///< the last one that reads it
};

/// A graph as a flat array of kernel calls with bound pointers. A call allocates nothing but its outputs.
class Executable {
 public:
  Executable(const graph::Graph& graph, std::span<const Strides> argument_strides, const ExecutableOptions& options);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// `arguments` must have the types and strides for which this was made. Reads and writes the graph's variables.
  /// Appends the results to `outputs`. Threads that call it at the same time take turns. Throws Error if it is called
  /// from within itself.
  void run(std::span<const Tensor> arguments, std::vector<Tensor>& outputs);

  const ExecutableStats& stats() const { return stats_; }
  /// By instruction: the first value that it makes; kNoValue: it copies.
  std::span<const graph::ValueId> values() const { return values_; }
  /// Empty if memory isn't planned.
  std::span<const PlannedTemporary> temporaries() const { return planned_temporaries_; }

 private:
  struct Instruction {
    void (*run)(const void* task);
    const void* task;
  };
  template <class Call>
  struct LoopTask;  ///< an elementwise op
  using LinearTask = LoopTask<kernels::LinearCall>;
  using StridedTask = LoopTask<kernels::StridedCall>;
  struct KernelTask;  ///< any other kernel
  /// Operands of a task that are packed in the first call, and when their elements have changed, in the second call
  /// that finds them the same: those that change before every call aren't worth it.
  struct Packed {
    struct Source {
      std::size_t input;
      std::uint32_t buffer;
      std::uint32_t number = 0;  ///< Storage::packing in the last call
      const void* data = nullptr;
    };
    KernelTask* task;
    std::vector<Source> sources;
    std::size_t bytes;
    StorageRef memory = {};
  };
  struct ControlTask;      ///< control flow, whose regions have executables of their own
  struct FusedTask;        ///< elementwise ops as one kernel
  struct ContractionTask;  ///< a contraction with such ops as its epilogue

  /// A pointer inside a task that must follow its buffer.
  struct Slot {
    void** location;
    std::int64_t offset;
  };
  struct BoundBuffer {
    Buffer buffer;
    void* pointer = nullptr;
    std::vector<Slot> slots;
    StorageRef storage;  ///< outputs, during a call; temporaries if memory isn't planned
  };

  /// Of an instruction, for the errors of its kernel.
  struct Origin {
    Location where;
    const char* module;
  };

  void build(const LoweredNode& node);
  void build_control(const LoweredNode& node);
  void build_fused(const LoweredNode& node);
  void build_contraction(const LoweredNode& node);
  void add_slot(const Place& place, void*& pointer) {
    buffers_[place.buffer].slots.push_back({&pointer, place.offset});
  }
  /// Everything but the pointers.
  static void bind_kernel(KernelTask& task, const OpDef& op, const AttributeValue& attributes,
                          std::span<const Place> inputs, const Place& output);
  void add_pointers(KernelTask& task, std::span<const Place> inputs, const Place& output);
  void pack_where_it_pays(KernelTask& task, std::span<const Place> inputs);
  void bind(BoundBuffer& buffer, void* pointer);
  void bind_inputs(std::span<const Tensor> arguments);
  /// Of a constant, a captured input or a state that the graph doesn't write. Null: the elements have none.
  Storage* lasting_storage(std::uint32_t buffer) const;
  enum class Elements : unsigned char { same, changed, not_ours };
  /// Since the last call.
  Elements look_at(Packed::Source& source, const void* data) const;
  void pack_inputs();
  template <bool traced>
  void execute(std::uint32_t instruction) const;
  template <bool planned, bool traced>
  void execute();
  template <bool traced>
  void execute_windows();

  ExecutableStats stats_;
  ExecutableOptions options_;
  bool planned_;
  std::vector<graph::Input> inputs_;
  std::vector<TensorType> output_types_;
  std::vector<Tensor> constants_;
  std::vector<bool> state_is_written_;  ///< by input
  std::vector<BoundBuffer> buffers_;
  std::vector<std::uint32_t> output_buffers_;
  std::vector<std::vector<std::uint32_t>> starts_;  ///< temporaries to allocate before instruction i, if not planned
  std::vector<std::vector<std::uint32_t>> ends_;
  std::vector<Instruction> instructions_;
  std::vector<Window> windows_;
  std::vector<const trace::Label*> labels_;
  std::vector<std::uint64_t> source_ops_;
  std::vector<Origin> origins_;
  std::vector<graph::ValueId> values_;
  // Tasks don't move: instructions point to them, and slots into them.
  std::vector<std::unique_ptr<LinearTask>> linear_tasks_;
  std::vector<std::unique_ptr<StridedTask>> strided_tasks_;
  std::vector<std::unique_ptr<KernelTask>> kernel_tasks_;
  std::vector<std::unique_ptr<ControlTask>> control_tasks_;
  std::vector<std::unique_ptr<FusedTask>> fused_tasks_;
  std::vector<std::unique_ptr<ContractionTask>> contraction_tasks_;
  std::vector<Packed> packed_;
  std::vector<PlannedTemporary> planned_temporaries_;
  StorageRef arena_;
  CallLock turns_;
};

}  // namespace diptych::runtime
