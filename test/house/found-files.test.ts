import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const packages = join(import.meta.dirname, '../../packages')

/** What follows a link, waits for a fifo, or goes by a path that may lead elsewhere between two steps. */
const careless =
  /(?<![\w.]|function )(?:fs\.)?(statSync|stat|readFileSync|readFile|createReadStream|opendirSync|opendir|openSync|readdirSync|readdir|rmSync|rm|chmodSync|chmod|chownSync|chown|copyFileSync|copyFile|cpSync|cp|truncateSync|truncate)\(/g

/** Where an agent's trees and the folders of sessions' users are handled. What a cell makes is read by `link/found-file.ts`, and what root
 *  does in such a folder is done by `daemon/workspace/trees.ts` and `held-folder.ts`. */
const watched = ['keeper/src', 'daemon/src/processes', 'daemon/src/workspace', 'daemon/src/app', 'daemon/src/folders.ts']
/** Another rule holds for drivers of cells (`cells/contract.ts`), and images are no agent's. */
const apart = ['keeper/src/cells/', 'keeper/src/images/']

/** What may be called all the same, and why no agent's word is followed by it. */
const allowed: Readonly<Record<string, readonly [why: string, ...calls: string[]]>> = {
  'keeper/src/workspace/look-inside.ts': ['runs in the cell', 'readFileSync', 'openSync', 'opendirSync'],
  'keeper/src/pins.ts': ['runs in the cell', 'readdirSync', 'statSync', 'readFileSync', 'openSync'],
  'keeper/src/doctor.ts': ['the machine’s own', 'readFileSync'],
  'keeper/src/gate-watch.ts': ['the log of the gate', 'openSync'],
  'keeper/src/saying-file.ts': ['the keeper’s own, which no cell sees', 'openSync'],
  'keeper/src/cell-settings.ts': ['the keeper’s own, which no cell can write', 'readFile'],
  'keeper/src/net-files.ts': ['a draft of the keeper’s own, which no cell sees', 'rm'],
  'keeper/src/main.ts': ['the keeper’s own, which no cell can write', 'rm'],
  'keeper/src/agents/contract.ts': ['for tests alone', 'rmSync', 'readFile'],
  'keeper/src/caches.ts': ['removes one name, and no folder', 'rmSync'],
  'keeper/src/repo-filter/walk.ts': ['names alone, and a fifo is no folder', 'readdirSync'],
  'keeper/src/repo-filter/covers.ts': ['what the cell sees instead, which it cannot write', 'rmSync', 'chmodSync'],
  'keeper/src/repo-filter/tracked.ts': ['what the cell sees instead, which it cannot write', 'chmodSync'],
  'daemon/src/processes/logs.ts': ['the daemon’s own', 'statSync', 'copyFileSync', 'rmSync', 'truncateSync'],
  'daemon/src/processes/cgroups.ts': [
    'the kernel’s own, where there are no links',
    'readFileSync',
    'readdirSync',
    'chmodSync',
    'chownSync',
  ],
  'daemon/src/processes/reap.ts': ['what is held open, folders of root’s own, and /proc', 'stat', 'readdirSync', 'readFileSync'],
  'daemon/src/processes/left-behind.ts': ['names alone', 'readdirSync'],
  'daemon/src/processes/launched.ts': ['names alone, in a folder of root’s own', 'readdirSync'],
  'daemon/src/processes/launch.ts': ['a log of the daemon’s own', 'openSync'],
  'daemon/src/processes/runtime.ts': ['programs of ours', ...['statSync', 'chmodSync', 'rmSync', 'copyFileSync', 'readFileSync']],
  'daemon/src/workspace/host-folders.ts': ['what is held open', 'opendir'],
  'daemon/src/workspace/trees.ts': ['what is held open', 'readdir'],
  'daemon/src/workspace/workspace.ts': ['what is held open, or is judged again once it is', 'stat'],
  'daemon/src/workspace/unsettled.ts': ['a folder of root’s own', 'rmSync'],
  'daemon/src/workspace/git-identity.ts': ['the owner’s own', 'statSync'],
  'daemon/src/workspace/caches.ts': ['cards in a folder of root’s own, and names', 'rmSync', 'readFileSync', 'readdirSync'],
  'daemon/src/workspace/hidden-folder.ts': [
    'cards in a folder of root’s own, and names',
    'rmSync',
    'readFileSync',
    'readdirSync',
  ],
  'daemon/src/app/keepers/lost-keeper.ts': ['held by test/attacks/replaced-paths.test.ts', 'rmSync'],
  'daemon/src/folders.ts': ['folders of root’s own, and what is opened without following a link', 'chmodSync', 'openSync'],
}

test('what an agent or a session’s user may have put there is read and removed by what follows no link', () => {
  const files = readdirSync(packages, { recursive: true, encoding: 'utf8' }).filter(
    (path) =>
      watched.some((one) => path === one || path.startsWith(`${one}/`)) &&
      !apart.some((one) => path.startsWith(one)) &&
      path.endsWith('.ts') &&
      !/\.test\.ts$|\/(?:fake|test)-[\w-]+\.ts$/.test(path),
  )
  const calls = files.flatMap((path) =>
    readFileSync(join(packages, path), 'utf8')
      .split('\n')
      .filter((line) => !/^\s*(?:\/?\*|\/\/)/.test(line))
      .flatMap((line) => [...line.matchAll(careless)].map(([, call]) => ({ path, call: call! }))),
  )
  expect(files.length).toBeGreaterThan(80)
  expect(calls.filter(({ path, call }) => allowed[path]?.slice(1).includes(call) !== true)).toEqual([])
  // What nobody calls any more is not to be allowed on.
  const left = Object.entries(allowed).flatMap(([path, [, ...names]]) =>
    names.filter((name) => !calls.some((one) => one.path === path && one.call === name)).map((name) => `${path}: ${name}`),
  )
  expect(left).toEqual([])
})
