#include "server/records.h"
