import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface FakeAccessLists {
  /** To be looked in first for programs. */
  readonly path: string
  /** What setfacl was told to do, each as `option entry path`, in the order of their names. */
  done(): readonly string[]
  /** Entries that begin like this cannot be changed from here on; null for none. */
  refuse(entry: string | null): void
}

/** Programs in the place of setfacl and getfacl, which not every machine has, nor every file system the lists. */
export function fakeAccessLists(folder: string): FakeAccessLists {
  mkdirSync(folder)
  const [log, refused] = [join(folder, 'log'), join(folder, 'refused')]
  writeFileSync(
    join(folder, 'setfacl'),
    `#!/bin/sh
what="$1 $2"; shift 3
if [ -e '${refused}' ]; then case "\${what#* }" in "$(cat '${refused}')"*) echo 'setfacl: Operation not permitted' >&2; exit 1;; esac; fi
realpath -- "$@" | sed "s|^|$what |" >>'${log}'
`,
    { mode: 0o755 },
  )
  writeFileSync(join(folder, 'getfacl'), '#!/bin/sh\n', { mode: 0o755 })
  return {
    path: folder,
    done: () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').toSorted() : []),
    refuse: (entry) => (entry === null ? rmSync(refused, { force: true }) : writeFileSync(refused, entry)),
  }
}
