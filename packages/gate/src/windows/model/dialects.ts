import { Failure } from '@anchorhold/protocol/failures'
import type { Dialect } from './dialect.ts'
import { messages } from './dialects/messages/messages.ts'

/** Every dialect that a session's model window may speak, each a folder of its own. */
const dialects: Readonly<Record<string, Dialect>> = { messages }

export const dialectNames = Object.keys(dialects)

export function dialectOf(name: string): Dialect {
  const dialect = Object.hasOwn(dialects, name) ? dialects[name] : undefined
  if (dialect === undefined) {
    throw new Failure(
      'gate_unavailable',
      `Cannot open a model window in the dialect "${name}": this gate speaks ${dialectNames.join(', ')}`,
      {
        hint: 'Update Anchorhold on this machine, and restart it',
      },
    )
  }
  return dialect
}
