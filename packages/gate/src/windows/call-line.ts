import type { SessionId } from '@anchorhold/protocol/ids'

/** One line of the log of a window. It never holds a header or a body. */
export type CallLine = {
  readonly session: SessionId
  readonly method: string
  readonly path: string
  readonly status: number
  readonly bytes: number
  readonly ms: number
}
