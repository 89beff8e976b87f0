#include "server/store.h"
