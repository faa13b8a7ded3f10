// `rondo train`: defines its options.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "rondo/error.h"
#include "rondo/rendezvous.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/parse.h"
#include "tools/train.h"
#include "tools/train_cli.h"
#include "tools/train_sweep.h"

namespace rondo::tools {

namespace {

/// "mlp (784-256-128-64-10); cnn (...)"
std::string summaries(const std::vector<TrainChoice>& choices) {
  std::string text;
  for (const TrainChoice& one : choices)
    text += (text.empty() ? "" : "; ") + one.name + " (" + one.summary + ")";
  return text;
}

/// Accepts one of the choices; if its name has a colon, any text may follow the colon.
CLI::Validator choice(const std::vector<TrainChoice>& choices) {
  return CLI::Validator(
      [choices](const std::string& text) -> std::string {
        std::string valid;
        for (const TrainChoice& one : choices) {
          valid += (valid.empty() ? "" : ", ") + one.name;
          const std::size_t colon = one.name.find(':');
          if (text == one.name && colon == std::string::npos) return {};
          if (colon != std::string::npos && text.size() > colon + 1 &&
              text.compare(0, colon + 1, one.name, 0, colon + 1) == 0)
            return {};
        }
        return "\"" + text + "\" is unknown; valid: " + valid;
      },
      "NAME");
}

CLI::Validator dataSource() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (text.starts_with("synthetic") || std::filesystem::is_directory(text)) return {};
        return "no such folder: " + text + "; valid: a folder, or synthetic";
      },
      "FOLDER|synthetic");
}

void addJob(CLI::App& app, TrainConfig& config) {
  TrainOptions& options = config.options;
  app.add_option("--model", options.model, summaries(trainModels()))
      ->check(choice(trainModels()))
      ->capture_default_str();
  app.add_option("--data", options.data,
                 "Samples: " + summaries(trainData()) +
                     ". Default: RONDO_DATA, else the folder of Debian's dataset-fashion-mnist")
      ->check(dataSource());
  app.add_option("--device", options.device, "Where the layers run: cpu, or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--precision", options.precision,
                 "Type of the numbers that layers multiply: " + summaries(trainPrecisions()))
      ->check(choice(trainPrecisions()))
      ->capture_default_str();
  app.add_flag("--show-schedule", config.show_schedule,
               "Print what each rank computes, sends and receives in one step, and end");
  app.add_option("--epochs", options.epochs, "Passes over the training samples")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--steps", options.steps,
                 "End after this many steps instead of --epochs; 0: use --epochs")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--batch", options.batch, "Samples of one step, over all ranks and micro-batches")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--accumulate,--micro-batches", options.accumulate,
                 "Micro-batches per rank and step; with a pipeline, per step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--remainder", options.remainder,
                 "What to do with samples that do not fill an epoch's last step: drop (leave them "
                 "out), pad (fill the step with the epoch's first samples), uneven (make a smaller "
                 "step; ddp only)")
      ->check(CLI::IsMember({"drop", "pad", "uneven"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the initial weights and of the order of samples")
      ->capture_default_str();
  app.add_option("--limit", options.limit_samples, "Use only this many training samples; 0: all")
      ->capture_default_str();
  app.add_flag("--augment", options.augment, "Flip and crop training samples");
  app.add_flag("--sync-batch-norm", options.sync_batch_norm,
               "Batch norm uses the statistics of all ranks' samples");
  app.add_option(
         "--sweep", config.sweep,
         "Run one training for each line of this file, NAME: OPTIONS, with the options of the line "
         "added to those given here; --report compares the runs")
      ->check(CLI::ExistingFile);
}

/// "1:3" or "0.1:3".
std::pair<double, double> parsePair(const std::string& text, const std::string& usage) {
  const std::size_t colon = text.find(':');
  double first = 0, second = 0;
  if (colon == std::string::npos || !CLI::detail::lexical_cast(text.substr(0, colon), first) ||
      !CLI::detail::lexical_cast(text.substr(colon + 1), second))
    throw CLI::ValidationError(usage, "\"" + text + "\"");
  return {first, second};
}

void addStrategy(CLI::App& app, TrainOptions& options) {
  const std::string group = "Strategy";
  app.add_option("--strategy", options.strategy,
                 "How the ranks train together: " + summaries(trainStrategies()))
      ->check(choice(trainStrategies()))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--servers", options.servers,
         "ps: number of servers: the first ranks, each of which holds a range of the parameters")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--dedicated-servers", options.dedicated_servers, "ps: servers do not train")
      ->group(group);
  app.add_option(
         "--consistency", options.consistency,
         "ps: bsp; ssp:S (a worker is at most S steps ahead of the values that it reads); asp "
         "(no worker waits)")
      ->capture_default_str()
      ->group(group);
  app.add_option("--period", options.period, "local: steps between two averages")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str()
      ->group(group);
  app.add_option("--slow-momentum", options.slow_momentum, "local: momentum of the averages")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--slow",
         [&options](const std::vector<std::string>& all) {
           for (const std::string& text : all) {
             const auto [rank, factor] = parsePair(text, "--slow RANK:FACTOR");
             options.slow.push_back({static_cast<int>(rank), factor});
           }
         },
         "RANK:FACTOR: make this rank slower by this factor (it sleeps)")
      ->group(group);
  app.add_option_function<std::string>(
         "--jitter",
         [&options](const std::string& text) {
           const auto [probability, factor] = parsePair(text, "--jitter PROBABILITY:FACTOR");
           options.jitter = {probability, factor};
         },
         "PROBABILITY:FACTOR: make random steps slower by this factor; --seed decides which")
      ->group(group);
  app.add_option(
         "--pace", options.pace_ms,
         "Least milliseconds of computation per step, reached by sleeping: ranks that share "
         "cores behave as if each had its own")
      ->check(CLI::Range(0.0, 1e6))
      ->group(group);
}

void addOptimizer(CLI::App& app, TrainOptions& options) {
  const std::string group = "Optimizer";
  app.add_option("--optimizer", options.optimizer, summaries(trainOptimizers()))
      ->check(choice(trainOptimizers()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--lr", options.learning_rate, "Learning rate")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str()
      ->group(group);
  app.add_option("--scale-lr", options.base_batch,
                 "Batch size for which --lr was chosen; --lr is scaled to --batch")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--scaling", options.scaling,
                 "How --scale-lr scales: " + summaries(trainScalings()))
      ->check(choice(trainScalings()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--schedule", options.schedule,
                 "How the learning rate changes: " + summaries(trainSchedules()))
      ->check(choice(trainSchedules()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--warm-up", options.warm_up,
                 "Steps over which the learning rate rises to its full value")
      ->check(CLI::Range(0, 1 << 30))
      ->group(group);
  app.add_option("--momentum", options.momentum, "Momentum of sgd and lars")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--nesterov", options.nesterov, "sgd: use Nesterov's momentum")->group(group);
  app.add_option("--weight-decay", options.weight_decay, "Weight decay of matrices and filters")
      ->check(CLI::Range(0.0, 1e6))
      ->group(group);
  app.add_option("--clip", options.clip, "Upper limit of the gradient's norm; 0: no limit")
      ->check(CLI::Range(0.0, 1e30))
      ->group(group);
}

void addReduction(CLI::App& app, TrainConfig& config) {
  TrainOptions& options = config.options;
  const std::string group = "Gradients";
  app.add_option_function<std::string>(
         "--bucket-cap",
         [&options](const std::string& text) { options.bucket_bytes = parseByteCounts(text); },
         "Sizes of the gradient buckets in bytes: the first, the second, ...; the last value is "
         "for all others. Default: 1M,25M; 0: one bucket per parameter")
      ->check(byteCounts())
      ->group(group);
  app.add_flag("!--no-overlap", options.overlap, "Send gradients only after the backward pass")
      ->group(group);
  app.add_option(
         "--groups", options.groups,
         "Communicators that buckets use in turn (round-robin groups); this many buckets can be "
         "in flight at once")
      ->check(CLI::Range(1, 16))
      ->capture_default_str()
      ->group(group);
  app.add_option("--hook", options.hook, "How gradients are sent: " + summaries(trainHooks()))
      ->check(choice(trainHooks()))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--noise-scale", options.noise_scale,
               "Estimate the gradient noise scale, that is, how large a batch makes sense")
      ->group(group);
  app.add_flag("--deterministic", config.deterministic,
               "Reduce in rank order: results are the same in every run and for every transport")
      ->group(group);
  CLI::Option* every = app.add_option("--verify-every", options.verify_every,
                                      "Compare the ranks' parameters every so many steps, after "
                                      "each epoch and at the end; 0: only at the end")
                           ->check(CLI::Range(0, 1'000'000))
                           ->capture_default_str()
                           ->group(group);
  app.add_flag_callback(
         "--no-verify", [&options] { options.verify_every = 0; },
         "Compare the ranks' parameters only at the end")
      ->excludes(every)
      ->group(group);
}

void addSharding(CLI::App& app, TrainOptions& options) {
  const std::string group = "Sharding";
  const auto bytes = [&](const std::string& name, auto& value, const std::string& help) {
    app.add_option_function<std::string>(
           name, [&value](const std::string& text) { value = parseBytes(text); }, help)
        ->check(byteCount())
        ->group(group);
  };
  bytes("--unit-bytes", options.unit_bytes,
        "fsdp: layers are joined into units of this size. Default: 128K; 0: each layer is a unit");
  bytes(
      "--memory-limit", options.memory_limit,
      "Refuse a run that needs more bytes of parameters, gradients and optimizer state on a rank");
  app.add_option("--mesh", options.mesh,
                 "Sizes of the axes of a grid of ranks, such as data=2,shard=2; consecutive ranks "
                 "differ in the last axis")
      ->group(group);
}

void addPipeline(CLI::App& app, TrainOptions& options) {
  const std::string group = "Pipeline (--strategy pipeline)";
  app.add_option("--pipeline", options.pipeline,
                 "Order of the micro-batches: " + summaries(trainPipelines()))
      ->check(choice(trainPipelines()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--laps", options.laps, "interleaved: parts of the model per rank")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--recompute", options.recompute,
               "Compute activations again before the backward pass instead of keeping them")
      ->group(group);
}

void addOutput(CLI::App& app, TrainConfig& config) {
  TrainOptions& options = config.options;
  const std::string group = "Files";
  CLI::Option* checkpoint =
      app.add_option("--checkpoint", options.checkpoint,
                     "Write a checkpoint at the end, and when stopped by SIGINT or SIGTERM")
          ->group(group);
  app.add_option("--checkpoint-every", options.checkpoint_every,
                 "Also write a checkpoint every so many steps")
      ->check(CLI::Range(1, 1 << 30))
      ->needs(checkpoint)
      ->group(group);
  app.add_flag("--resume", options.resume, "Continue from the checkpoint")
      ->needs(checkpoint)
      ->group(group);
  app.add_option("--report", options.report,
                 "Write a page of curves and timings, index.html, into this folder")
      ->group(group);
  app.add_option("--trace", options.trace, "Write a timeline for ui.perfetto.dev to this file")
      ->group(group);
  app.add_option("--metrics", options.metrics,
                 "Write a line of JSON for each step and epoch to this file")
      ->group(group);
  app.add_option("--json", config.json, "Also write the report to this file as JSON")->group(group);
}

/// Returns -p.
CLI::Option* addRanks(CLI::App& app, TrainConfig& config) {
  CLI::Option* ranks =
      app.add_option("-p,--ranks", config.ranks, "Ranks to start, unless a launcher started them")
          ->check(CLI::Range(1, 512))
          ->capture_default_str()
          ->group("Ranks");
  app.add_option("--transport", config.transport, transportHelp())
      ->check(transportNames())
      ->group("Ranks");
  app.add_flag("--threads", config.threads, "Run the ranks as threads of one process")
      ->group("Ranks");
  return ranks;
}

/// Returns -p.
CLI::Option* addAll(CLI::App& app, TrainConfig& config) {
  addJob(app, config);
  addStrategy(app, config.options);
  addOptimizer(app, config.options);
  addReduction(app, config);
  addSharding(app, config.options);
  addPipeline(app, config.options);
  addOutput(app, config);
  return addRanks(app, config);
}

} // namespace

void parseTrain(const std::string& line, TrainConfig& config) {
  CLI::App app;
  addAll(app, config);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
}

Action addTrain(CLI::App& parent, const std::vector<std::string>& arguments) {
  auto config = std::make_shared<TrainConfig>();
  config->arguments = arguments;
  CLI::App* app = parent.add_subcommand("train", "Train an image classifier on several ranks");
  CLI::Option* ranks = addAll(*app, *config);
  app->footer(
      "Examples:\n"
      "  rondo train --model mlp -p 2\n"
      "  rondo train --model cnn -p 2 --epochs 10 --schedule cosine --lr 0.05 --warm-up 100\n"
      "  rondo train -p 2 --checkpoint run.ckpt --checkpoint-every 100 # then: the same, --resume\n"
      "  rondo train --strategy pipeline --model cnn -p 2 --micro-batches 16\n"
      "  rondo train --sweep bench/train/fashion.sweep --epochs 10 --report out\n"
      "  rondo train --model resnet18 --data synthetic -p 2 --steps 20 --json report.json\n");
  return [config, ranks] {
    config->threads = config->threads || needsThreads(config->transport);
    const LaunchInfo launch = Rendezvous::detectLauncher();
    config->launched = !config->threads && !launch.launcher.empty();
    if (config->launched && ranks->count() > 0 && config->ranks != launch.size) {
      throw Error(ErrorCode::invalid_argument, "-p " + std::to_string(config->ranks) + ", but " +
                                                   launch.launcher + " started " +
                                                   std::to_string(launch.size) + " ranks");
    }
    if (config->launched) config->ranks = launch.size;
    if (config->sweep.empty()) return runTrain(*config);
    if (config->launched)
      throw Error(ErrorCode::invalid_argument, "--sweep starts its ranks itself");
    return runSweep(*config);
  };
}

} // namespace rondo::tools
