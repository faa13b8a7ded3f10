// Opens, closes and forgets ranks.
#include "compat/python/rank.h"

#include <algorithm>
#include <future>
#include <thread>

#include "rondo/detail/shims.h"

namespace rondo::compat::python {

namespace {

/// The ranks that are open, for the end of the process. Guarded by the interpreter's lock; never
/// destroyed, since Python may destroy its objects after the statics.
std::vector<Rank*>& all() {
  static auto* const ranks = new std::vector<Rank*>;
  return *ranks;
}

/// The text of failureBy() for the exception that was given to programEnds(). Guarded by the
/// interpreter's lock; never destroyed, as all().
std::optional<std::string>& ending() {
  static auto* const failure = new std::optional<std::string>;
  return *failure;
}

/// The first 400 characters of str(object); "" if that raises, or UTF-8 cannot express it. Rondo
/// cuts the text of an error after 2048 bytes, which could be inside of a character.
std::string beginOf(nb::handle object) {
  constexpr Py_ssize_t kCharacters = 400;
  if (PyObject* const text = PyObject_Str(object.ptr())) {
    const auto whole = nb::steal(text);
    const auto begin = nb::steal(PyUnicode_Substring(text, 0, kCharacters));
    const char* const bytes = begin ? PyUnicode_AsUTF8AndSize(begin.ptr(), nullptr) : nullptr;
    if (bytes) return bytes;
  }
  PyErr_Clear();
  return {};
}

/// Closes this communicator. Waits for its calls; if `failure` is given, ends them with it.
void leave(std::shared_ptr<OpenRank> last, const std::optional<std::string>& failure) {
  if (failure) detail::Shims::abandon(last->comm(), *failure);
  last.reset();
}

/// The same for several communicators, in parallel. All of them fail before the first one closes,
/// so that the other ranks are told the failure, and not only that this rank has left.
void leaveAll(std::vector<std::shared_ptr<OpenRank>> open,
              const std::optional<std::string>& failure) {
  const auto onThreads = [&](const auto& act) {
    std::vector<std::thread> threads;
    for (auto& one : open)
      if (one) threads.emplace_back([&act, &one] { act(one); });
    for (std::thread& thread : threads) thread.join();
  };
  if (failure) onThreads([&](const auto& one) { detail::Shims::abandon(one->comm(), *failure); });
  onThreads([](auto& one) { one.reset(); });
}

} // namespace

Rank::Rank(Communicator comm, std::shared_ptr<Family> family)
    : open_(std::make_shared<OpenRank>(std::move(comm))),
      rank_(open_->comm().rank()),
      size_(open_->comm().size()),
      family_(std::move(family)) {
  detail::Shims::whileWaiting(open_->comm(), &Wait::rest);
  if (const auto aborted = family_->aborted) {
    const Unlocked unlocked;
    open_->comm().abort(*aborted);
  }
  all().push_back(this);
  goesOn();
}

Rank::~Rank() {
  std::erase(all(), this);
  if (!open_) return;
  // If something has caught the exception, a job may go on that uses only other threads.
  const auto failure = onMainThread() ? ending() : std::nullopt;
  const Unlocked unlocked; // the calls may need other threads of Python
  leave(std::move(open_), failure);
}

std::shared_ptr<OpenRank> Rank::open(const char* call) const {
  if (!open_) refuse(call, "the communicator is closed");
  if (open_->inherited())
    refuse(call,
           "this process is a fork of the one that made the communicator; a child makes its "
           "own, in a program that it executes (multiprocessing: start method \"spawn\")");
  return open_;
}

void Rank::close(const std::optional<std::string>& failure) {
  std::shared_ptr<OpenRank> last = std::exchange(open_, nullptr);
  if (!last) return;
  if (onMainThread() && !last->inherited())
    return untilSignal(std::async(std::launch::async, leave, std::move(last), failure));
  const Unlocked unlocked;
  leave(std::move(last), failure);
}

void Rank::drop(const std::weak_ptr<void>& user) const {
  std::shared_ptr<OpenRank> open = open_;
  if (!open || open->inherited()) return;
  const Unlocked unlocked;
  const std::shared_ptr<OpenRank> last = std::move(open);
  last->drop(user.lock());
}

void Rank::abortFamily(const std::string& reason) const {
  family_->aborted = reason;
  std::vector<std::shared_ptr<OpenRank>> open;
  for (const Rank* const one : all())
    if (one->family_ == family_ && one->open_ && !one->open_->inherited())
      open.push_back(one->open_);
  const Unlocked unlocked;
  const auto last = std::move(open); // destroying a communicator waits
  for (const auto& one : last) one->comm().abort(reason);
}

void Rank::closeAll() {
  Unlocked::interpreterEnds();
  std::vector<std::shared_ptr<OpenRank>> open;
  for (Rank* const one : all()) open.push_back(std::exchange(one->open_, nullptr));
  untilSignal(std::async(std::launch::async, leaveAll, std::move(open), ending()));
}

std::optional<std::string> Rank::failureBy(nb::handle exception) {
  if (exception.is_none() || PyErr_GivenExceptionMatches(exception.ptr(), PyExc_GeneratorExit))
    return std::nullopt;
  if (PyErr_GivenExceptionMatches(exception.ptr(), PyExc_SystemExit)) {
    const nb::object status = exception.attr("code");
    if (status.is_none() || (nb::isinstance<nb::int_>(status) && status.equal(nb::int_(0))))
      return std::nullopt;
  }
  const std::string text = beginOf(exception);
  return "its program raised " + beginOf(exception.type().attr("__name__")) +
         (text.empty() ? "" : ": " + text);
}

void Rank::programEnds(nb::handle exception) { ending() = failureBy(exception); }

void Rank::goesOn() {
  if (onMainThread()) ending().reset();
}

} // namespace rondo::compat::python
