import { lockHolder } from '@anchorhold/link/lock'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Folders } from '../folders.ts'
import { endProcess } from './launch.ts'

/** Ends every cell that somebody has launched without a daemon (`anchorhold sandbox`, `claude`): it dies with the process that holds its
 *  lock. Tells how many there were. */
export function endLaunched({ launched }: Pick<Folders, 'launched'>): number {
  const holders = entriesOf(launched).flatMap((name) => lockHolder(join(launched, name, 'lock')) ?? [])
  for (const pid of holders) endProcess(pid)
  return holders.length
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // nobody has launched one yet
  }
}
