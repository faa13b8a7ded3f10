// Everything a user includes, but for the trainer of librondo_train (rondo/train.h).
#pragma once

#include "rondo/buffer.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "rondo/gradients.h"
#include "rondo/options.h"
#include "rondo/place.h"
#include "rondo/rendezvous.h"
#include "rondo/stream.h"
#include "rondo/types.h"
#include "rondo/work.h"
