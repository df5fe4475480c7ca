import type { GateCommand } from '@anchorhold/protocol/gate-commands'

/** All that the gate is told, but for the end of its process. */
export type Command = Exclude<GateCommand, { do: 'leave' }>

/** What carries out some of the commands, one function each. */
export type Verbs<Do extends Command['do'] = Command['do']> = {
  readonly [D in Do]: (command: Extract<Command, { do: D }>) => unknown
}
