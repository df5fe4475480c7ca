import type { WindowKind } from './window.ts'
import { type ModelParts, modelWindows } from './model/opening.ts'
import { type NetParts, netWindows } from './net/opening.ts'

/** The windows that a session may have, in the order in which they are opened. */
export const windowKinds = async (parts: ModelParts & NetParts): Promise<readonly WindowKind[]> => [
  modelWindows(parts),
  await netWindows(parts),
]
