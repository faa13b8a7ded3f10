// Makes synthetic images that a network can learn: each class has a smooth picture, and each sample
// is its class's picture, shifted a little and mixed with as much noise. Uses integer arithmetic
// only, so the images are the same on every machine.
#include <charconv>

#include "rondo/error.h"
#include "train/data/dataset.h"
#include "train/random.h"

namespace rondo::training::sources {
namespace {

constexpr std::string_view kName = "synthetic";
/// Each channel of a picture is random at this many places per side, and interpolated between them.
constexpr std::size_t kGrid = 4;
constexpr std::uint64_t kMostSamples = 1U << 24, kMostSide = 4096, kMostBytes = 1ULL << 36;

struct Settings {
  SampleShape shape{1, 28, 28};
  std::uint64_t classes = 10, train = 10'000, test = 2'000, seed = 1;
};

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: data \"" + where + "\": " + what);
}

/// Removes a number from the beginning of the text.
bool takeNumber(std::string_view& text, std::uint64_t& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool parseShape(std::string_view text, SampleShape& shape) {
  for (std::size_t* side : {&shape.channels, &shape.height, &shape.width}) {
    std::uint64_t number = 0;
    if (!takeNumber(text, number) || number < 1 || number > kMostSide) return false;
    *side = number;
    if (side == &shape.width) return text.empty();
    if (!text.starts_with('x')) return false;
    text.remove_prefix(1);
  }
  return false;
}

void parseSetting(const std::string& where, std::string_view name, std::string_view value,
                  Settings& settings) {
  const auto number = [&](std::uint64_t& into, std::uint64_t least, std::uint64_t most) {
    if (!takeNumber(value, into) || !value.empty() || into < least || into > most)
      refuse(where, std::string(name) + " must be a number from " + std::to_string(least) + " to " +
                        std::to_string(most));
  };
  if (name == "shape") {
    if (!parseShape(value, settings.shape))
      refuse(where,
             "shape must be CHANNELSxHEIGHTxWIDTH, each from 1 to " + std::to_string(kMostSide));
  } else if (name == "classes") {
    number(settings.classes, 2, 256);
  } else if (name == "train") {
    number(settings.train, 1, kMostSamples);
  } else if (name == "test") {
    number(settings.test, 1, kMostSamples);
  } else if (name == "seed") {
    number(settings.seed, 0, ~std::uint64_t{0});
  } else {
    refuse(where, "unknown setting \"" + std::string(name) +
                      "\"; valid: shape, classes, train, test, seed");
  }
}

Settings parse(const std::string& where) {
  Settings settings;
  std::string_view rest = std::string_view(where).substr(kName.size());
  while (!rest.empty()) {
    rest.remove_prefix(1); // the colon or a comma
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(one.size());
    const auto equals = one.find('=');
    parseSetting(where, one.substr(0, equals),
                 equals == std::string_view::npos ? "" : one.substr(equals + 1), settings);
  }
  if ((settings.train + settings.test) * settings.shape.size() > kMostBytes)
    refuse(where, "makes more than " + std::to_string(kMostBytes) + " bytes of images");
  return settings;
}

/// Draws one picture per class, [classes x shape].
std::vector<std::uint8_t> drawPictures(const Settings& settings) {
  const SampleShape& shape = settings.shape;
  std::vector<std::uint8_t> pictures;
  pictures.reserve(settings.classes * shape.size());
  Random random(settings.seed);
  for (std::size_t plane = 0; plane < settings.classes * shape.channels; ++plane) {
    std::uint32_t grid[kGrid][kGrid];
    for (auto& row : grid)
      for (std::uint32_t& place : row) place = random.below(256);
    for (std::size_t y = 0; y < shape.height; ++y)
      for (std::size_t x = 0; x < shape.width; ++x) {
        // In 256ths of a grid place. The grid continues at its opposite side.
        const auto fy = static_cast<std::uint32_t>(y * kGrid * 256 / shape.height);
        const auto fx = static_cast<std::uint32_t>(x * kGrid * 256 / shape.width);
        const std::uint32_t *above = grid[fy / 256], *below = grid[(fy / 256 + 1) % kGrid];
        const std::uint32_t left = fx / 256, right = (left + 1) % kGrid, dx = fx % 256;
        const std::uint32_t dy = fy % 256;
        const std::uint32_t top = above[left] * (256 - dx) + above[right] * dx;
        const std::uint32_t bottom = below[left] * (256 - dx) + below[right] * dx;
        pictures.push_back(static_cast<std::uint8_t>((top * (256 - dy) + bottom * dy) >> 16));
      }
  }
  return pictures;
}

/// Mixes the picture, cyclically shifted, with noise, half and half.
void drawSample(const std::uint8_t* picture, const SampleShape& shape, Random& random,
                std::uint8_t* into) {
  const std::size_t down = random.below(static_cast<std::uint32_t>(shape.height / 8 + 1));
  const std::size_t right = random.below(static_cast<std::uint32_t>(shape.width / 8 + 1));
  std::uint64_t noise = 0;
  std::size_t drawn = 0;
  for (std::size_t c = 0; c < shape.channels; ++c)
    for (std::size_t y = 0; y < shape.height; ++y) {
      const std::uint8_t* row =
          picture + (c * shape.height + (y + down) % shape.height) * shape.width;
      for (std::size_t x = 0; x < shape.width; ++x, noise >>= 8) {
        if (drawn++ % 8 == 0) noise = random.next();
        const std::uint8_t pixel =
            row[x + right < shape.width ? x + right : x + right - shape.width];
        *into++ = static_cast<std::uint8_t>((pixel + (noise & 255)) / 2);
      }
    }
}

Dataset draw(const Settings& settings, const std::vector<std::uint8_t>& pictures,
             std::uint64_t count, Random random) {
  Dataset set{.shape = settings.shape, .classes = settings.classes, .images = {}, .labels = {}};
  set.images.resize(count * set.shape.size());
  set.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t label = random.below(static_cast<std::uint32_t>(settings.classes));
    set.labels[i] = static_cast<std::uint8_t>(label);
    drawSample(pictures.data() + label * set.shape.size(), set.shape, random,
               set.images.data() + i * set.shape.size());
  }
  return set;
}

bool recognises(const std::string& where) {
  return where == kName || where.starts_with(std::string(kName) + ":");
}

Data load(const std::string& where) {
  const Settings settings = parse(where);
  const std::vector<std::uint8_t> pictures = drawPictures(settings);
  // Each set has a seed of its own, so the sets differ, and the size of one does not change the
  // other.
  Random seeds(~settings.seed);
  const Random train(seeds.next()), test(seeds.next());
  return {draw(settings, pictures, settings.train, train),
          draw(settings, pictures, settings.test, test),
          {}};
}

} // namespace

extern const DataSource synthetic;
const DataSource synthetic{
    .name = kName,
    .summary = "synthetic images of any shape, which a network can learn",
    .files =
        "\"synthetic\", or with settings "
        "\"synthetic:shape=1x28x28,classes=10,train=10000,test=2000,seed=1\"",
    .recognises = recognises,
    .load = load,
};

} // namespace rondo::training::sources
