// Time limits of the control plane that depend on each other, and the order that they need.
#pragma once

#include <chrono>

namespace rondo::bootstrap {

// A failure --------------------------------------------------------------------------------------

/// How long a rank waits for the hub's decision about a failure that it reported, and for the
/// answer when it leaves or ends.
inline constexpr std::chrono::milliseconds kAgreeLimit{400};
/// Within this time the last frames of an ended process, such as its bye, have arrived.
inline constexpr std::chrono::milliseconds kLastWords{100};
/// How long the hub waits for the end of an accused rank's control connection.
inline constexpr std::chrono::milliseconds kDeathLimit{200};
/// How long a rank accused of silence may take to answer.
inline constexpr std::chrono::milliseconds kAnswerLimit{300};
/// Limit of an inquiry: for the ranks' answers, and for all ranks to enter the call in question.
inline constexpr std::chrono::milliseconds kAskLimit{100};
/// The same when a rank leaves.
inline constexpr std::chrono::milliseconds kLeaveLimit{300};

static_assert(kLastWords < kDeathLimit, "the launcher's news of a death come before the decision");
static_assert(kDeathLimit < kAgreeLimit && kAnswerLimit < kAgreeLimit && kAskLimit < kAgreeLimit &&
                  kLeaveLimit < kAgreeLimit,
              "the hub decides before the ranks that wait for the decision give up");

// A hub that moves -------------------------------------------------------------------------------

/// How long the first rank has to answer the offer of a hub, before the next one gets it too: it
/// may be stopped.
inline constexpr std::chrono::milliseconds kOfferLimit{250};
/// Each later rank gets less time, because many of them may be on one stopped machine.
inline constexpr std::chrono::milliseconds kNextLimit{50};
/// How long a process waits for its successor.
inline constexpr std::chrono::milliseconds kHandOverLimit{1000};
/// A process that ends waits three heartbeats, after which silent ranks count as unresponsive, but
/// at most this long.
inline constexpr std::chrono::milliseconds kLongestHandOver{10'000};
/// How long a closed link sends what is queued. The last frame may be the address of the next hub.
inline constexpr std::chrono::milliseconds kPartLimit{3000};
/// How long the ranks may take to connect to the new hub.
inline constexpr std::chrono::milliseconds kComeLimit{3000};
/// After this time the new hub asks ranks that have not connected whether they live.
inline constexpr std::chrono::milliseconds kAskTime{2000};
/// How long the question to a rank's listener may take.
inline constexpr std::chrono::milliseconds kProbeLimit{1000};
/// How long a rank tries to connect to a hub that moved.
inline constexpr std::chrono::milliseconds kMoveLimit{3000};
/// How long a rank that ends may take to follow a hub that moves. After the same time a new hub
/// probes the ranks that have not connected to it.
inline constexpr std::chrono::milliseconds kFollowLimit{2000};
/// A process that was stopped for so long may have missed a move of the hub.
inline constexpr std::chrono::milliseconds kMissed{2000};
/// If a move fails within this time after the process was stopped, the stop may be the reason.
inline constexpr std::chrono::milliseconds kWoke{5000};

static_assert(kOfferLimit + kNextLimit < kHandOverLimit, "several ranks get the offer");
static_assert(kHandOverLimit < kLongestHandOver);
static_assert(kPartLimit >= kComeLimit, "the address is sent as long as a rank may come");
static_assert(kAskTime + kProbeLimit <= kComeLimit, "a dead rank is known before it is excluded");
static_assert(kFollowLimit == kAskTime);
static_assert(kMissed < kComeLimit,
              "a rank that a stop excluded knows that it may have missed a move");
static_assert(kMoveLimit < kWoke, "it is still known that the process was stopped");

// A hub that is replaced -------------------------------------------------------------------------

/// How long a rank that looks for the next hub waits for the answer of a candidate.
inline constexpr std::chrono::milliseconds kCandidateLimit{2000};
/// After a stop of this length a process assumes that others may have skipped it as a candidate.
inline constexpr std::chrono::milliseconds kMaySkip{1500};
/// How long the ranks may take to connect to a hub that replaces a dead or silent one, without
/// Succession::spread.
inline constexpr std::chrono::milliseconds kReplaceLimit{4000};
/// How long a hub that takes over may need, once its host has noticed the death, until it tells
/// ranks that it excludes them. A hub that replaces a silent one waits longer, by less than a
/// heartbeat.
inline constexpr std::chrono::milliseconds kSearchLimit{8000};

static_assert(kMaySkip < kCandidateLimit,
              "a stop is measured from a timer that was due after the stop had begun");
static_assert(kMoveLimit < kReplaceLimit,
              "the hub waits for ranks that first give up connecting to a hub that moved");
static_assert(kMoveLimit + kReplaceLimit + kProbeLimit <= kSearchLimit,
              "its host may first give up a hub that moved, and the last probe takes its time");

} // namespace rondo::bootstrap
