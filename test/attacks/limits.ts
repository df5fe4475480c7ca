import { trialLimits } from '@anchorhold/keeper/cells/trial'

/** Small enough to be reached soon. */
export const smallLimits = {
  ...trialLimits,
  memoryBytes: 256 * 2 ** 20,
  diskBytes: 64 * 2 ** 20,
  fileBytes: 32 * 2 ** 20,
  tmpBytes: 8 * 2 ** 20,
}
