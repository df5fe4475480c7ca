import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Lack } from './cell.ts'
import type { ReadText } from './install.ts'

// Ubuntu lets only those programs make user namespaces that a profile of AppArmor's names. For some of them it brings profiles that
// take from everything they start what a cell is made with, and a second profile for the same path would put both out of force, for all
// who use it. So there are copies, with a profile of their own.

const folder = '/usr/local/lib/anchorhold'

/** The copy of a program that AppArmor lets make cells; the program itself where there is none, or where it was updated since. */
export function allowedCopy(program: string): string {
  const copy = join(folder, basename(program))
  try {
    return readFileSync(copy).equals(readFileSync(program)) ? copy : program
  } catch {
    return program
  }
}

/** Whether that is why this program could not make a namespace, and what to do. */
export function lacksProfile(said: string, program: string, read: ReadText): Lack | null {
  if (read('/proc/sys/kernel/apparmor_restrict_unprivileged_userns') !== '1') return null
  if (!/permission denied|not permitted/i.test(said)) return null
  const profile = `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile anchorhold ${folder}/* flags=(unconfined) {\\n  userns,\\n}\\n`
  const steps = [
    ...(program.startsWith(`${folder}/`) ? [] : [`sudo install -D -t ${folder} ${program}`]),
    `printf '${profile}' | sudo tee /etc/apparmor.d/anchorhold`,
    'sudo apparmor_parser -r /etc/apparmor.d/anchorhold',
  ]
  return { what: `AppArmor keeps ${basename(program)} from making user namespaces`, remedy: steps.join(' && ') }
}
