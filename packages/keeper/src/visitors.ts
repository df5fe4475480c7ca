import type { Clock } from '@anchorhold/link/clock'
import type { RandomBytes } from '@anchorhold/protocol/ids'
import type { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { besideNet, netEnvironment } from './agents/net-route.ts'
import { cellEnvironment } from './cell-environment.ts'
import type { Cell, CellProcess } from './cells/cell.ts'
import type { Journal } from './journal.ts'
import type { Outfit } from './outfit.ts'
import { shells as makeShells } from './shells/shells.ts'
import { trustEnvironment } from './trust.ts'
import { askWorkspace } from './workspace/ask-workspace.ts'

/** People in the cell: they look at the workspace, and have shells there. */
export interface Visitors {
  /** Shells that stand. The keeper stays while there is one. */
  readonly shells: number
  handle(command: VisitorCommand): Promise<unknown>
  /** Ends every shell. */
  leave(): void
}

export type VisitorCommand = Extract<KeeperCommand, { do: 'workspace' | `shell.${string}` }>

export type VisitorsOptions = {
  readonly start: Pick<KeeperStart, 'place' | 'policy'>
  readonly outfit: Outfit
  /** Whoever wants to go into the cell waits until it stands. */
  readonly stands: Promise<Cell>
  readonly journal: Journal
  readonly clock: Clock
  readonly random: RandomBytes
  /** Somebody came or went. */
  readonly onChange: () => void
}

export function visitors({ start, outfit, stands, journal, clock, random, onChange }: VisitorsOptions): Visitors {
  const shells = makeShells({
    clock,
    random,
    onClosed(shell, why) {
      void journal.write({ type: 'terminal.closed', body: { shell, why: why.slice(0, 500) } })
      onChange()
    },
  })

  async function openShell({ cols, rows, actor, door }: Extract<VisitorCommand, { do: 'shell.open' }>): Promise<string> {
    const cell = await stands
    const shell = shells.open({ cols, rows }, (args) => shellProcess(cell, start, outfit, args), actor)
    await journal.write({ type: 'terminal.opened', body: { shell, actor, door } })
    onChange()
    return shell
  }

  return {
    get shells() {
      return shells.count
    },
    async handle(command) {
      switch (command.do) {
        case 'workspace':
          try {
            return await askWorkspace(await stands, start.place, command.asked)
          } finally {
            onChange()
          }
        case 'shell.open':
          return { shell: await openShell(command) }
        case 'shell.write':
          return shells.write(command.shell, Buffer.from(command.base64, 'base64'))
        case 'shell.size':
          return shells.resize(command.shell, command, command.actor)
        case 'shell.read':
          return shells.read(command.shell, command.after)
        case 'shell.close':
          return shells.close(command.shell, command.why)
      }
    },
    leave: () => shells.closeAll('The cell was ended'),
  }
}

/** A shell finds what the agent's programs find, but no way of its own to the model. */
function shellProcess(
  cell: Cell,
  { place, policy }: VisitorsOptions['start'],
  outfit: Outfit,
  args: readonly string[],
): CellProcess {
  const node = cell.place(place.files.node)
  const command = [node, ...args] as const
  const hasNet = policy.network === 'proxy_only'
  const env = cellEnvironment({
    home: cell.place(`${place.folder}/home`),
    path: outfit.path,
    env: {
      ...(hasNet ? netEnvironment : {}),
      ...(outfit.trust === null ? {} : trustEnvironment(cell.place(outfit.trust))),
      ...outfit.env,
      ...{ TERM: 'xterm-256color', COLORTERM: 'truecolor' },
    },
  })
  const routed = hasNet ? besideNet([node, cell.place(place.files.forwarder)], cell.place(place.windows), command) : command
  return cell.spawn(routed, { env, cwd: cell.place(place.workspace) })
}
