/* What bindgen reads: the headers of the SDK that is installed, or those of the stand-in. */
#ifdef RINGLEADER_DOCA_STAND_IN
#include "ringleader_doca_stand_in.h"
#else
#include <doca_comch.h>
#include <doca_ctx.h>
#include <doca_dev.h>
#include <doca_error.h>
#include <doca_mmap.h>
#include <doca_pe.h>
#include <doca_rdma_bridge.h>
#include <doca_types.h>
#include <doca_version.h>
#endif
