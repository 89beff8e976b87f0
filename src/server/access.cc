#include "server/access.h"
