// The table of the trainer's options: one row for each.
#include <array>
#include <charconv>
#include <concepts>

#include "rondo/train.h"

namespace rondo {

namespace {

using std::string_view;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kMany = 1 << 20; // more is a mistake in typing
constexpr double kSteps = 1 << 30;

// Headings of the help, in its order.
constexpr string_view kStrategy = "Strategy";
constexpr string_view kOptimizer = "Optimizer";
constexpr string_view kGradients = "Gradients";
constexpr string_view kSharding = "Sharding";
constexpr string_view kPipeline = "Pipeline (--strategy pipeline)";
constexpr string_view kFiles = "Files";

/// The strategies that go on when ranks die.
constexpr string_view kElastic = "ddp, zero1, zero2, fsdp, ps, local";

std::vector<TrainChoice> devices() { return {{"cpu", ""}, {"cuda", ""}}; }
std::vector<TrainChoice> remainders() { return {{"drop", ""}, {"pad", ""}, {"uneven", ""}}; }

bool always(const TrainOptions&) { return true; }
bool ifRemainder(const TrainOptions& options) { return options.remainder != "drop"; }
bool ifHook(const TrainOptions& options) { return options.gradients.hook != "none"; }

#define MEMBER(path) [](TrainOptions& options) -> TrainMember { return &options.path; }

constexpr TrainOption kTable[] = {
    {.name = "model",
     .flag = "--model",
     .help = "{}",
     .member = MEMBER(model),
     .choices = trainModels,
     .kept = always},
    {.name = "data",
     .flag = "--data",
     .help = "Samples: {}. Default: RONDO_DATA, else the folder of Debian's "
             "dataset-fashion-mnist",
     .member = MEMBER(data),
     .unit = TrainUnit::source,
     .choices = trainData,
     .agreed = false}, // its contents are compared
    {.name = "device",
     .flag = "--device",
     .help = "Where the layers run: cpu, or cuda",
     .member = MEMBER(device),
     .choices = devices},
    {.name = "precision",
     .flag = "--precision",
     .help = "Type of the numbers that layers multiply: {}",
     .member = MEMBER(precision),
     .choices = trainPrecisions},
    {.name = "epochs",
     .flag = "--epochs",
     .help = "Passes over the training samples",
     .member = MEMBER(epochs),
     .range = {1, kNone},
     .typed = {1, 1e6}},
    {.name = "steps",
     .flag = "--steps",
     .help = "End after this many steps instead of --epochs; 0: use --epochs",
     .member = MEMBER(steps),
     .range = {0, kNone},
     .typed = {0, static_cast<double>(std::int64_t{1} << 40)}},
    {.name = "batch",
     .flag = "--batch",
     .help = "Samples of one step, over all ranks and micro-batches",
     .member = MEMBER(batch),
     .range = {1, kNone},
     .typed = {1, kMany},
     .kept = always},
    {.name = "accumulate",
     .flag = "--accumulate,--micro-batches",
     .help = "Micro-batches per rank and step; with a pipeline, per pipeline and step",
     .member = MEMBER(accumulate),
     .range = {1, kNone},
     .typed = {1, kMany},
     .strategies = "ddp, zero1, zero2, fsdp, pipeline, ps"},
    {.name = "seed",
     .flag = "--seed",
     .help = "Seed of the initial weights and of the order of samples",
     .member = MEMBER(seed),
     .kept = always},
    {.name = "remainder",
     .flag = "--remainder",
     .help = "What to do with samples that do not fill an epoch's last step: drop (leave them "
             "out), pad (fill the step with the epoch's first samples), uneven (make a smaller "
             "step; ddp only)",
     .member = MEMBER(remainder),
     .choices = remainders,
     .strategies = "ddp",
     .restricted = "uneven",
     .kept = ifRemainder},
    {.name = "limit_samples",
     .flag = "--limit",
     .help = "Use only this many training samples; 0: all",
     .member = MEMBER(limit_samples)},
    {.name = "folds",
     .flag = "--folds",
     .help = "Cross-validation with this many folds of the training samples: one run for each, on "
             "one rank each, and their mean",
     .member = MEMBER(folds.count),
     .range = {0, kNone},
     .typed = {2, kMany}},
    {.name = "fold",
     .flag = "--fold",
     .help = "Train without this one of --folds only, 1 or more, and test on it",
     .member = MEMBER(folds.number),
     .range = {0, kNone},
     .typed = {1, kMany},
     .needs = "folds"},
    {.name = "augment",
     .flag = "--augment",
     .help = "Flip and crop training samples",
     .member = MEMBER(augment),
     .kept = always},
    {.name = "sync_batch_norm",
     .flag = "--sync-batch-norm",
     .help = "Batch norm uses the statistics of all ranks' samples",
     .member = MEMBER(sync_batch_norm),
     .strategies = "ddp, zero1, zero2, fsdp"},

    {.name = "strategy",
     .flag = "--strategy",
     .help = "How the ranks train together: {}",
     .member = MEMBER(strategy),
     .group = kStrategy,
     .choices = trainStrategies},
    {.name = "elastic",
     .flag = "--elastic",
     .help = "MIN:MAX: go on with fewer ranks when some die, and with more when some join",
     .member = MEMBER(elastic.ranks),
     .group = kStrategy,
     .strategies = kElastic,
     .otherwise = "; with other strategies a run that lost a rank returns to its checkpoint: start "
                  "it again with --resume"},
    {.name = "redundancy",
     .flag = "--redundancy",
     .help = "elastic: copies of each rank's shard in the memory of the rank before it, renewed in "
             "each step. 0: none; then the death of a rank returns the run to its last checkpoint. "
             "Default: 1, for fsdp 0",
     .member = MEMBER(elastic.redundancy),
     .group = kStrategy,
     .range = {-1, 1},
     .typed = {0, 1},
     .strategies = "zero1, zero2, fsdp, ps",
     .needs = "elastic"},
    {.name = "rendezvous_file",
     .flag = "--rendezvous-file",
     .help = "A file through which new ranks find the run. Default: RONDO_RENDEZVOUS_FILE, which "
             "`rondo run --restart` sets",
     .member = MEMBER(elastic.rendezvous_file),
     .group = kStrategy,
     .unit = TrainUnit::file,
     .strategies = kElastic,
     .needs = "elastic",
     .agreed = false,
     .in_json = false},
    {.name = "elastic_wait",
     .flag = "--elastic-wait",
     .help = "Seconds that fewer than MIN ranks wait for others",
     .member = MEMBER(elastic.wait),
     .group = kStrategy,
     .range = {0, 86400},
     .strategies = kElastic,
     .needs = "elastic"},
    {.name = "servers",
     .flag = "--servers",
     .help = "ps: number of servers: the first ranks, each of which holds a range of the "
             "parameters",
     .member = MEMBER(servers.count),
     .group = kStrategy,
     .typed = {1, kMany},
     .strategies = "ps"},
    {.name = "dedicated_servers",
     .flag = "--dedicated-servers",
     .help = "ps: servers do not train",
     .member = MEMBER(servers.dedicated),
     .group = kStrategy,
     .strategies = "ps"},
    {.name = "consistency",
     .flag = "--consistency",
     .help = "ps: bsp; ssp:S (a worker is at most S steps ahead of the values that it reads); asp "
             "(no worker waits)",
     .member = MEMBER(servers.consistency),
     .group = kStrategy,
     .strategies = "ps"},
    {.name = "period",
     .flag = "--period",
     .help = "local: steps between two averages",
     .member = MEMBER(averaging.period),
     .group = kStrategy,
     .typed = {1, kSteps},
     .strategies = "local"},
    {.name = "slow_momentum",
     .flag = "--slow-momentum",
     .help = "local: momentum of the averages",
     .member = MEMBER(averaging.slow_momentum),
     .group = kStrategy,
     .typed = {0, 1},
     .strategies = "local"},
    {.name = "slow",
     .flag = "--slow",
     .help = "RANK:FACTOR: make this rank slower by this factor (it sleeps)",
     .member = MEMBER(stragglers.slow),
     .group = kStrategy},
    {.name = "jitter",
     .flag = "--jitter",
     .help = "PROBABILITY:FACTOR: make random steps slower by this factor; --seed decides which",
     .member = MEMBER(stragglers.jitter),
     .group = kStrategy},
    {.name = "pace_ms",
     .flag = "--pace",
     .help = "Least milliseconds of computation per step, reached by sleeping: ranks that share "
             "cores behave as if each had its own",
     .member = MEMBER(stragglers.pace_ms),
     .group = kStrategy,
     .unit = TrainUnit::milliseconds,
     .range = {0, kNone},
     .typed = {0, 1e6}},

    {.name = "optimizer",
     .flag = "--optimizer",
     .help = "{}",
     .member = MEMBER(optimizer.name),
     .group = kOptimizer,
     .choices = trainOptimizers,
     .kept = always},
    {.name = "learning_rate",
     .flag = "--lr",
     .help = "Learning rate",
     .member = MEMBER(optimizer.learning_rate),
     .group = kOptimizer,
     .range = {0, kNone},
     .typed = {0, 1e6}},
    {.name = "base_batch",
     .flag = "--scale-lr",
     .help = "Batch size for which --lr was chosen; --lr is scaled to --batch",
     .member = MEMBER(optimizer.base_batch),
     .group = kOptimizer,
     .range = {0, kNone},
     .typed = {1, kMany}},
    {.name = "scaling",
     .flag = "--scaling",
     .help = "How --scale-lr scales: {}",
     .member = MEMBER(optimizer.scaling),
     .group = kOptimizer,
     .choices = trainScalings},
    {.name = "schedule",
     .flag = "--schedule",
     .help = "How the learning rate changes: {}",
     .member = MEMBER(optimizer.schedule),
     .group = kOptimizer,
     .choices = trainSchedules},
    {.name = "warm_up",
     .flag = "--warm-up",
     .help = "Steps over which the learning rate rises to its full value",
     .member = MEMBER(optimizer.warm_up),
     .group = kOptimizer,
     .range = {0, kNone},
     .typed = {0, kSteps}},
    {.name = "momentum",
     .flag = "--momentum",
     .help = "Momentum of sgd and lars",
     .member = MEMBER(optimizer.momentum),
     .group = kOptimizer,
     .range = {0, 1}},
    {.name = "nesterov",
     .flag = "--nesterov",
     .help = "sgd: use Nesterov's momentum",
     .member = MEMBER(optimizer.nesterov),
     .group = kOptimizer},
    {.name = "weight_decay",
     .flag = "--weight-decay",
     .help = "Weight decay of matrices and filters",
     .member = MEMBER(optimizer.weight_decay),
     .group = kOptimizer,
     .range = {0, kNone},
     .typed = {0, 1e6}},
    {.name = "clip",
     .flag = "--clip",
     .help = "Upper limit of the gradient's norm; 0: no limit",
     .member = MEMBER(optimizer.clip),
     .group = kOptimizer,
     .range = {0, kNone},
     .typed = {0, 1e30},
     .strategies = "ddp, zero1, zero2, fsdp, pipeline, dp"},

    {.name = "hook",
     .flag = "--hook",
     .help = "How gradients are sent: {}",
     .member = MEMBER(gradients.hook),
     .group = kGradients,
     .choices = trainHooks,
     .strategies = "ddp, fsdp, ps",
     .kept = always},
    {.name = "bucket_bytes",
     .flag = "--bucket-cap",
     .help = "Sizes of the gradient buckets in bytes: the first, the second, ...; the last value "
             "is for all others. Default: 1M,25M; 0: one bucket per parameter",
     .member = MEMBER(gradients.bucket_bytes),
     .group = kGradients,
     .unit = TrainUnit::bytes,
     .strategies = "ddp, zero1, zero2, tensor, pipeline",
     .kept = ifHook,
     .kept_name = "hook_bucket_bytes"}, // the state of hooks belongs to buckets
    {.name = "overlap",
     .flag = "--no-overlap",
     .help = "Send gradients only after the backward pass",
     .member = MEMBER(gradients.overlap),
     .group = kGradients,
     .strategies = "ddp, zero1, zero2, fsdp, tensor, pipeline"},
    {.name = "groups",
     .flag = "--groups",
     .help = "Communicators that buckets use in turn (round-robin groups); this many buckets can "
             "be in flight at once",
     .member = MEMBER(gradients.groups),
     .group = kGradients,
     .range = {1, 16},
     .strategies = "ddp, tensor, pipeline"},
    {.name = "noise_scale",
     .flag = "--noise-scale",
     .help = "Estimate the gradient noise scale, that is, how large a batch makes sense",
     .member = MEMBER(gradients.noise_scale),
     .group = kGradients,
     .strategies = "ddp"},
    {.name = "verify_every",
     .flag = "--verify-every",
     .help = "Compare the ranks' parameters every so many steps, after each epoch and at the end; "
             "0: only at the end",
     .member = MEMBER(gradients.verify_every),
     .group = kGradients,
     .range = {0, kNone},
     .typed = {0, 1e6}},

    {.name = "unit_bytes",
     .flag = "--unit-bytes",
     .help = "fsdp: layers are joined into units of this size. Default: 128K; 0: each layer is a "
             "unit",
     .member = MEMBER(sharding.unit_bytes),
     .group = kSharding,
     .unit = TrainUnit::bytes,
     .strategies = "fsdp"},
    {.name = "memory_limit",
     .flag = "--memory-limit",
     .help = "Refuse a run that needs more bytes of parameters, gradients and optimizer state on "
             "a rank",
     .member = MEMBER(sharding.memory_limit),
     .group = kSharding,
     .unit = TrainUnit::bytes,
     .strategies = "ddp, zero1, zero2, fsdp"},
    {.name = "mesh",
     .flag = "--mesh",
     .help = "Sizes of the axes of a grid of ranks, such as data=2,shard=2; consecutive ranks "
             "differ in the last axis",
     .member = MEMBER(sharding.mesh),
     .group = kSharding,
     .strategies = "zero1, zero2, fsdp, tensor, pipeline"},

    {.name = "pipeline",
     .flag = "--pipeline",
     .help = "Order of the micro-batches: {}",
     .member = MEMBER(pipeline.order),
     .group = kPipeline,
     .choices = trainPipelines,
     .strategies = "pipeline"},
    {.name = "laps",
     .flag = "--laps",
     .help = "interleaved: parts of the model per rank",
     .member = MEMBER(pipeline.laps),
     .group = kPipeline,
     .typed = {1, 1 << 10},
     .strategies = "pipeline"},
    {.name = "recompute",
     .flag = "--recompute",
     .help = "Compute activations again before the backward pass instead of keeping them",
     .member = MEMBER(pipeline.recompute),
     .group = kPipeline,
     .strategies = "pipeline"},

    {.name = "checkpoint",
     .flag = "--checkpoint",
     .help = "Write a checkpoint at the end, and when stopped by SIGINT or SIGTERM",
     .member = MEMBER(files.checkpoint),
     .group = kFiles,
     .unit = TrainUnit::file,
     .presence = "checkpoint",
     .in_json = false},
    {.name = "checkpoint_every",
     .flag = "--checkpoint-every",
     .help = "Also write a checkpoint every so many steps",
     .member = MEMBER(files.checkpoint_every),
     .group = kFiles,
     .range = {0, kNone},
     .typed = {1, kSteps},
     .needs = "checkpoint",
     .in_json = false},
    {.name = "resume",
     .flag = "--resume",
     .help = "Continue from the checkpoint",
     .member = MEMBER(files.resume),
     .group = kFiles,
     .needs = "checkpoint",
     .in_json = false},
    {.name = "report",
     .flag = "--report",
     .help = "Write a page of curves and timings, index.html, into this folder",
     .member = MEMBER(files.report),
     .group = kFiles,
     .unit = TrainUnit::folder,
     .presence = "report or trace",
     .in_json = false},
    {.name = "metrics",
     .flag = "--metrics",
     .help = "Write a line of JSON for each step and epoch to this file",
     .member = MEMBER(files.metrics),
     .group = kFiles,
     .unit = TrainUnit::file,
     .agreed = false,
     .in_json = false},
    {.name = "trace",
     .flag = "--trace",
     .help = "Write a timeline for ui.perfetto.dev to this file",
     .member = MEMBER(files.trace),
     .group = kFiles,
     .unit = TrainUnit::file,
     .presence = "report or trace",
     .in_json = false},
};

std::string text(double value) {
  std::array<char, 32> digits; // as few digits as identify the value
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}
std::string text(const std::string& value) { return value; }
std::string text(bool value) { return value ? "yes" : "no"; }
std::string text(std::integral auto value) { return std::to_string(value); }
std::string text(const TrainSlowRank& one) {
  return std::to_string(one.rank) + ":" + text(one.factor);
}
std::string text(const TrainJitter& jitter) {
  return text(jitter.probability) + ":" + text(jitter.factor);
}

template <class Value>
std::vector<std::string> all(const Value& value) {
  return {text(value)};
}
template <class Value>
std::vector<std::string> all(const std::vector<Value>& values) {
  std::vector<std::string> texts;
  for (const Value& value : values) texts.push_back(text(value));
  return texts;
}

} // namespace

std::span<const TrainOption> trainOptionTable() { return kTable; }

bool TrainOption::isFor(string_view strategy) const {
  const auto quoted = [](string_view text) { return ", " + std::string(text) + ", "; };
  return strategies.empty() || quoted(strategies).find(quoted(strategy)) != std::string::npos;
}

bool TrainOption::isSet(const TrainOptions& options) const {
  static const TrainOptions kDefaults;
  return texts(options) != texts(kDefaults);
}

std::vector<std::string> TrainOption::texts(const TrainOptions& options) const {
  return read(options, [](const auto& value) { return all(value); });
}

} // namespace rondo
