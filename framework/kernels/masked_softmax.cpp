#include "framework/kernels/masked_softmax.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "framework/core/isa.h"
#include "framework/kernels/loaded.h"
#include "framework/kernels/softmax_row.h"
#include "framework/kernels/vector_length.h"

namespace diptych::kernels {
namespace {

constexpr std::int64_t kRowGroup = 4;

/// Mask: void (none), Loaded<bool>, or T.
template <class T, class Mask>
struct MaskedSoftmax {
  template <int bytes>
  struct Of {
    static constexpr T kHidden = -std::numeric_limits<T>::infinity();

    DIPTYCH_INLINE static T masked(T score, const Mask* mask, std::int64_t i) {
      if constexpr (std::is_void_v<Mask>) {
        return score;
      } else if constexpr (std::is_same_v<Mask, Loaded<bool>>) {
        return mask[i] != 0 ? score : kHidden;
      } else {
        return score + mask[i];
      }
    }

    DIPTYCH_INLINE static void scaled_and_masked(std::int64_t n, T scale, const T* in, const Mask* mask,
                                                 std::int64_t mask_stride, T* out) {
      if (std::is_void_v<Mask> || mask_stride == 1) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          out[i] = masked(in[i] * scale, mask, i);
        }
      } else {
        for (std::int64_t i = 0; i < n; ++i) {
          out[i] = masked(in[i] * scale, mask, i * mask_stride);
        }
      }
    }

    DIPTYCH_INLINE static void run(const Scores* scores, const ScorePart* part, T* in, T* out) {
      const T scale = static_cast<T>(scores->scale);
      // Rounding is monotonic: the largest product is that of the largest score. This saves one pass.
      const bool is_scaled_late = std::is_void_v<Mask> && scale > T(0);
      const T* const from = is_scaled_late ? in : out;
      const T late = is_scaled_late ? scale : T(1);
      // Pass by pass over several rows: in a single row each pass would wait for the one before.
      for (std::int64_t first = 0; first < part->rows; first += kRowGroup) {
        const std::int64_t end = std::min(first + kRowGroup, part->rows);
        T shift[kRowGroup];
        T total[kRowGroup];
        for (std::int64_t row = first; row < end; ++row) {
          T* const to = (is_scaled_late ? in : out) + row * part->pitch;
          const std::int64_t n = scores->attended(part->first_row + row);
          if (!is_scaled_late) {
            const Mask* mask = static_cast<const Mask*>(scores->mask);
            if constexpr (!std::is_void_v<Mask>) {
              mask += scores->mask_offset(part->matrix, part->first_row + row);
            }
            scaled_and_masked(n, scale, in + row * part->pitch, mask, scores->mask_column, to);
          }
          std::fill(to + n, to + vectors_of(*part, n), kHidden);
          const T largest = largest_for_shift<bytes>(vectors_of(*part, n), static_cast<const T*>(to));
          shift[row - first] = largest * late;
        }
        for (std::int64_t row = first; row < end; ++row) {
          T& least = shift[row - first];
          // With NaN in the row it may be any element's: the sum will be NaN.
          const bool has_none = !std::is_void_v<Mask> && least == kHidden;
          least = has_none ? T(0) : least;
          total[row - first] = exponentials(vectors_of(*part, scores->attended(part->first_row + row)),
                                            from + row * part->pitch, late, least, out + row * part->pitch);
          total[row - first] = has_none && total[row - first] == T(0) ? T(1) : total[row - first];
        }
        for (std::int64_t row = first; row < end; ++row) {
          const std::int64_t n = scores->attended(part->first_row + row);
          T* const to = out + row * part->pitch;
          divide_by_sum(vectors_of(*part, n), total[row - first], to);
          const T rest = total[row - first] * T(0);  // 0, or NaN as in the rest of the row
          for (std::int64_t i = n; i < part->columns; ++i) {
            to[i] = rest;
          }
        }
      }
    }

   private:
    /// Whole vectors, where there is room for them: the exponential of what follows the row is 0.
    DIPTYCH_INLINE static std::int64_t vectors_of(const ScorePart& part, std::int64_t n) {
      return part.has_room ? (n + kLanes - 1) / kLanes * kLanes : n;
    }
  };
};

template <class T>
struct MaskedSoftmaxBackward {
  DIPTYCH_INLINE static void run(const Scores* scores, const ScorePart* part, const T* gradient, const T* result,
                                 T* out) {
    const T scale = static_cast<T>(scores->scale);
    for (std::int64_t row = 0; row < part->rows; ++row) {
      const T* g = gradient + row * part->pitch;
      const T* p = result + row * part->pitch;
      T* to = out + row * part->pitch;
      const std::int64_t n = scores->attended(part->first_row + row);
      T inner;
      detail::reduce<SumCombine, T, 1>(
          scores->whole_rows ? part->columns : n, [=](std::int64_t i, int) { return g[i] * p[i]; }, &inner);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = scale * (p[i] * (g[i] - inner));
      }
      for (std::int64_t i = n; i < part->columns; ++i) {
        to[i] = T(0);
      }
    }
  }
};

}  // namespace

Scores scores_of(const Shape& shape, double scale, bool is_causal, const Operand* mask) {
  const int rank = shape.rank();
  Scores scores;
  scores.columns = shape.back();
  scores.rows = shape[rank - 2];
  scores.matrices = shape.contains(0) ? 0 : shape.product() / (scores.rows * scores.columns);
  scores.scale = scale;
  scores.is_causal = is_causal;
  scores.batch_rank = rank - 2;
  for (int i = 0; i < scores.batch_rank; ++i) {
    scores.batch[i] = shape[i];
  }
  if (mask == nullptr) {
    return scores;
  }
  const Shape& own_shape = mask->type->shape;
  const auto stride = [&](int axis) {
    const int own = axis - (rank - own_shape.rank());
    return own < 0 || own_shape[own] == 1 ? 0 : (*mask->strides)[own];
  };
  scores.mask_kind = mask->type->dtype == DType::boolean ? Scores::Mask::boolean : Scores::Mask::floating;
  scores.mask = mask->data;
  scores.mask_column = stride(rank - 1);
  scores.mask_row = stride(rank - 2);
  for (int i = 0; i < scores.batch_rank; ++i) {
    scores.mask_batch[i] = stride(i);
  }
  return scores;
}

template <class T>
void masked_softmax(const Scores& scores, const ScorePart& part, const T* scores_in, T* out) {
  T* const in = const_cast<T*>(scores_in);  // written to behind the rows alone, where the part has room
  switch (scores.mask_kind) {
    case Scores::Mask::none:
      return active_of<MaskedSoftmax<T, void>::template Of>()(&scores, &part, in, out);
    case Scores::Mask::boolean:
      return active_of<MaskedSoftmax<T, Loaded<bool>>::template Of>()(&scores, &part, in, out);
    case Scores::Mask::floating:
      return active_of<MaskedSoftmax<T, T>::template Of>()(&scores, &part, in, out);
  }
}

template <class T>
void masked_softmax_backward(const Scores& scores, const ScorePart& part, const T* g, const T* p, T* out) {
  PerIsa<MaskedSoftmaxBackward<T>>::active()(&scores, &part, g, p, out);
}

template void masked_softmax(const Scores&, const ScorePart&, const float*, float*);
template void masked_softmax(const Scores&, const ScorePart&, const double*, double*);
template void masked_softmax_backward(const Scores&, const ScorePart&, const float*, const float*, float*);
template void masked_softmax_backward(const Scores&, const ScorePart&, const double*, const double*, double*);

}  // namespace diptych::kernels
