// A mutex that clang's thread-safety analysis understands: GUARDED_BY(mutex_) on a member and
// REQUIRES(mutex_) on a function are then checked at compile time.
#pragma once

#include <mutex>

#if defined(__clang__)
#define RETORT_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define RETORT_THREAD_ANNOTATION(x)
#endif
#define CAPABILITY(x) RETORT_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY RETORT_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) RETORT_THREAD_ANNOTATION(guarded_by(x))
#define REQUIRES(...) RETORT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) RETORT_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) RETORT_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace retort::base {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace retort::base
