import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')

/** Where the host may run git, and how. A repository that was in a cell runs programs of its own through hooks, filters, monitors and
 *  submodules, so none of these may look at one: `--global` reads the owner's own configuration, from a folder that is no repository. */
const allowed = [
  "packages/daemon/src/workspace/git-identity.ts: promisify(execFile)('git', ['config', '--global', '--null', '--get-regexp', wanted], options)",
]

/** What runs git in a cell: its source is handed over as text, and nothing on the host calls it. */
const inside = 'packages/keeper/src/workspace/look-inside.ts'

test('the host runs git nowhere that a repository could answer', () => {
  const files = ['packages', 'bin'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(ts|mjs)$/.test(path) && !/node_modules|\.test\.ts$/.test(path))
      .map((path) => `${folder}/${path}`),
  )
  const calls = files.flatMap((path) => {
    if (path === inside) return []
    const text = readFileSync(join(root, path), 'utf8')
    // A program is named first in a call, or in a list of words that begins with it.
    return [...text.matchAll(/[\w)(.]*[([]\s*['"`](?:\/usr\/bin\/)?git['"`]\s*,.*$/gm)].map(([call]) => `${path}: ${call.trim()}`)
  })
  expect(files.length).toBeGreaterThan(150)
  expect(calls).toEqual(allowed)
  const uses = files.flatMap((path) =>
    path === inside
      ? []
      : [...readFileSync(join(root, path), 'utf8').matchAll(/\blookInside\b(?! })[^\n]{0,11}/g)].map(([use]) => use),
  )
  expect(uses).toEqual(['lookInside.toString()'])
})
