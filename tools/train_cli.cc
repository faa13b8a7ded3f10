// `rondo train`: its options.
#include <CLI/CLI.hpp>
#include <memory>

#include "rondo/error.h"
#include "rondo/rendezvous.h"
#include "tools/cli_values.h"
#include "tools/command.h"
#include "tools/train.h"

namespace rondo::tools {

namespace {

void addVerification(CLI::App& app, TrainOptions& options) {
  CLI::Option* every = app.add_option("--verify-every", options.verify_every,
                                      "Compare the ranks' parameters after so many steps, and "
                                      "after each epoch; 0: never")
                           ->check(CLI::Range(0, 1'000'000))
                           ->capture_default_str();
  app.add_flag_callback(
         "--no-verify", [&options] { options.verify_every = 0; },
         "Never compare the ranks' parameters")
      ->excludes(every);
}

} // namespace

Action addTrain(CLI::App& parent, const std::vector<std::string>& arguments) {
  auto config = std::make_shared<TrainConfig>();
  config->arguments = arguments;
  TrainOptions& options = config->options;
  CLI::App* app = parent.add_subcommand("train", "Train an image classifier on several ranks");
  app->add_option("--model", options.model, "mlp: 784-256-128-64-10 with ReLU")
      ->check(CLI::IsMember({"mlp"}))
      ->capture_default_str();
  app->add_option("--data", options.data,
                  "Folder of the Fashion-MNIST files; default: RONDO_DATA, else where Debian's "
                  "dataset-fashion-mnist puts them")
      ->check(CLI::ExistingDirectory);
  app->add_option("--epochs", options.epochs, "Passes over the training samples")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app->add_option("--batch", options.batch, "Samples of one step, over all ranks and micro-batches")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--accumulate", options.accumulate, "Micro-batches of a rank in one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--lr", options.learning_rate, "Learning rate")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app->add_option("--momentum", options.momentum, "Momentum of the gradient descent")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app->add_option("--seed", options.seed, "Of the first weights and the order of the samples")
      ->capture_default_str();
  app->add_option("--limit", options.limit_samples, "Use only the first samples; 0: all")
      ->capture_default_str();
  addVerification(*app, options);
  app->add_flag("--deterministic", config->deterministic,
                "Results do not depend on how the ranks add up");
  CLI::Option* ranks =
      app->add_option("-p,--ranks", config->ranks, "Ranks to start, unless a launcher did")
          ->check(CLI::Range(1, 512))
          ->capture_default_str();
  app->add_option("--transport", config->transport, transportHelp())->check(transportNames());
  app->add_flag("--threads", config->threads, "Ranks are threads of one process");
  app->add_option("--json", config->json, "Also write the report to this file as JSON");
  app->footer(
      "Examples:\n"
      "  rondo train --model mlp -p 2\n"
      "  rondo train -p 4 --epochs 10 --batch 256 --lr 0.1 --json report.json\n");
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
    if (config->options.data.empty()) config->options.data = defaultDataFolder();
    return runTrain(*config);
  };
}

} // namespace rondo::tools
