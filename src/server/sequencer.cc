#include "server/sequencer.h"
