#include "framework/data/prefetch.h"

#include <fmt/format.h>

namespace diptych::data {

Prefetch::Prefetch(Make make, std::size_t depth, std::int64_t first_step) : make_(std::move(make)), depth_(depth) {
  if (depth_ < 1) {
    throw Error("prefetch: a depth of 0 makes no batch; choose at least 1");
  }
  thread_ = std::thread([this, first_step] { work(first_step); });
}

Prefetch::~Prefetch() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetch::work(std::int64_t step) {
  for (;; ++step) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || ready_.size() < depth_; });
      if (stopping_) {
        return;
      }
    }
    Dataset batch;
    std::exception_ptr failure;
    try {
      batch = make_(step);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::scoped_lock lock(mutex_);
      failure_ = failure;
      if (failure == nullptr) {
        ready_.push_back(std::move(batch));
      }
    }
    changed_.notify_all();
    if (failure != nullptr) {
      return;
    }
  }
}

Dataset Prefetch::next() {
  Dataset batch;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_ != nullptr; });
    if (ready_.empty()) {
      std::rethrow_exception(failure_);
    }
    batch = std::move(ready_.front());
    ready_.pop_front();
  }
  changed_.notify_all();
  return batch;
}

}  // namespace diptych::data
