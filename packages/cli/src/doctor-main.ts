// Prints what this machine can isolate, as JSON; with --quick, without measuring how long it takes. The daemon asks it too, as a process of its own.
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { drivers } from '@anchorhold/keeper/cells/drivers'
import { trialUser } from '@anchorhold/keeper/cells/trial'
import { examine } from '@anchorhold/keeper/doctor'
import { homedir } from 'node:os'
import { join } from 'node:path'

// The programs of a release lie in one folder.
const files = { node: process.execPath, inside: join(import.meta.dirname, 'inside.mjs') }
const every = Object.values(drivers).map((make) => make(files))
const cgroups = process.getuid?.() === 0 ? delegateCgroups(`doctor-${process.pid}`, trialUser) : []
try {
  console.log(
    JSON.stringify(
      await examine({ home: homedir(), drivers: every, cgroups, ...(process.argv.includes('--quick') ? { starts: 1 } : {}) }),
    ),
  )
} finally {
  withdrawCgroups(cgroups)
}
