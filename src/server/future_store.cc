#include "server/future_store.h"
