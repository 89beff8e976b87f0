#include "server/age.h"
