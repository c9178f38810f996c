#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace diptych::testing {

/// Damages the bytes of models: bits, bytes, pieces, and numbers, as of lengths.
class ModelMutator {
 public:
  explicit ModelMutator(std::uint64_t seed) : random_(seed) {}

  std::string damaged(const std::string& seed) {
    std::string bytes = seed;
    for (std::uint64_t left = 1 + below(6); left > 0; --left) {
      const std::size_t place = below(bytes.size());
      switch (below(7)) {
        case 0:
          bytes[place] = static_cast<char>(random_());
          break;
        case 1:
          bytes[place] = static_cast<char>(bytes[place] ^ (1 << below(8)));
          break;
        case 2:
          bytes.erase(place, 1 + below(8));
          break;
        case 3:
          bytes.insert(place, bytes.substr(below(bytes.size()), below(16)));
          break;
        case 4:
          bytes.replace(place, 1, std::string("\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 1 + below(9)));
          break;
        case 5: {
          static constexpr std::uint64_t kLengths[] = {INT64_MAX,
                                                       (std::uint64_t{1} << 62U) + 1000,
                                                       std::uint64_t{1} << 61U,
                                                       std::uint64_t{1} << 32U,
                                                       std::uint64_t{1} << 63U,
                                                       UINT64_MAX,
                                                       0};
          bytes.replace(place, 1, varint(kLengths[below(std::size(kLengths))]));
          break;
        }
        default:
          bytes[place] = static_cast<char>(bytes[place] + (below(2) == 0 ? 1 : -1));
      }
      if (bytes.empty()) {
        bytes = "x";
      }
    }
    return bytes;
  }

 private:
  /// As protobuf writes a number.
  static std::string varint(std::uint64_t number) {
    std::string bytes;
    for (; number >= 0x80; number >>= 7U) {
      bytes += static_cast<char>(number | 0x80U);
    }
    return bytes + static_cast<char>(number);
  }
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }
  std::mt19937_64 random_;
};

}  // namespace diptych::testing
