// All public headers but the trainer's (rondo/train.h, librondo_train) and that for libtorch
// (rondo/torch.h).
#pragma once

#include "rondo/buffer.h"
#include "rondo/callbacks.h"
#include "rondo/communicator.h"
#include "rondo/error.h"
#include "rondo/explanation.h"
#include "rondo/gradients.h"
#include "rondo/group.h"
#include "rondo/options.h"
#include "rondo/place.h"
#include "rondo/rendezvous.h"
#include "rondo/stream.h"
#include "rondo/transports.h"
#include "rondo/types.h"
#include "rondo/work.h"
