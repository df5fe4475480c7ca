import { coverWorkspace } from '@anchorhold/keeper/repo-filter/covers'
import { hiddenMemory } from '@anchorhold/keeper/repo-filter/memory'
import { ownerMark } from '@anchorhold/link/owner'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { trialUser } from '@anchorhold/keeper/cells/trial'
import { type Attack, type AttackedCell, type Ground, judge } from './attack.ts'

const secret = 'hunter2'
/** Shows every file that can be read, and then that it has looked. */
const look = `find . -type f -exec cat {} + 2>/dev/null | sort | uniq -c | awk '{print $2}'; echo looked`

export const covers: Attack = {
  name: 'uncover a hidden file',
  promise: 'What the repository filter hides stays hidden, whatever a cell moves, links or closes, in this cell and in the next.',
  guard: 'covers that lie on the files themselves in one mount namespace a cell; a memory of what was hidden',
  async *run(on) {
    for (const [name, filter, files] of filters) {
      await using place = makePlace(files)
      await using one = await place.cell(on, filter)
      yield judge(`${name}: what is hidden is not read`, (await one.sh(look)).lines, ['shown', 'looked'])
    }
    yield* whileItStands(on)
    yield* nextTime(on)
  },
}

const common = { 'main.ts': 'shown\n' }
const filters: readonly (readonly [string, RepoFilter, Readonly<Record<string, string>>])[] = [
  ['standard', 'standard', { ...common, '.ENV': secret, 'a/Id_RSA': secret, '.ssh/known': secret, 'b/x.Pem': secret }],
  ['strict', 'strict', { ...common, 'my-Token.json': secret, 'node_modules/a/.NPMRC': secret, 'x.tfstate': secret }],
  [
    'a list of one’s own',
    { denylist: ['*.Secret', 'private/**'], allowlist: ['main.*'] },
    { ...common, 'a.SECRET': secret, 'private/deep/x': secret },
  ],
]

/** Each script is a process of its own: what one has moved, the next one must not find bare. */
async function* whileItStands(on: Ground) {
  await using place = makePlace({ ...common, 'sub/deep/.env': secret, 'sub/.ssh/id_rsa': secret, '.env': secret })
  symlinks(place, { 'way.txt': 'sub/deep/.env' })
  await using one = await place.cell(on, 'standard')
  const after = async (script: string) => (await one.sh(`${script}; ${look}`)).lines
  const safe = ['shown', 'looked']
  yield judge('a link to a hidden file is followed', await after('cat way.txt; ln -s .env l; cat l'), safe)
  yield judge('a hidden file is moved, linked or removed', await after(refused('mv .env x', 'ln .env x', 'rm -f .env')), [
    ...['refused', 'refused', 'refused'],
    ...safe,
  ])
  yield judge('the folder above a hidden file is renamed', await after('mv sub/deep sub/other; mv sub sub2'), safe)
  yield judge('and looked at by the next process', await after('mv sub2 sub3'), safe)
  yield judge('a link takes the place of the folder', await after(`ln -s /oldroot${place.outside} sub; mkdir x`), safe)
  yield judge('nothing was made outside', [...readdirSync(place.outside), 'and nothing else'], ['and nothing else'])
  // While names change places without a pause, processes come and go.
  const moving = one.cell.spawn(['sh', '-c', 'while :; do mv sub3 sub4; mv sub4 sub3; done 2>/dev/null'], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: one.workspace,
  })
  const seen = new Set<string>()
  for (let round = 0; round < 10; round++) for (const line of await after('true')) seen.add(line)
  moving.kill('SIGKILL')
  yield judge('names change while processes are started', [...seen].toSorted(), safe.toSorted())
}

async function* nextTime(on: Ground) {
  for (const [name, script] of moves) {
    await using place = makePlace({
      ...{ ...common, 'apps/.env': secret, '.aws/credentials': secret, '.cargo/credentials.toml': secret },
      ...{ '.git/HEAD': 'ref\n', '.git/objects/x': '', '.git/config': `[http]\n\textraheader = ${secret}\n` },
    })
    {
      await using first = await place.cell(on, 'standard')
      await first.sh(script)
    }
    await using second = await place.cell(on, 'standard')
    const { lines } = await second.sh(`chmod -R u+rwX . 2>/dev/null; ${look}`)
    yield judge(`${name}, before the next start`, [lines.join(' ').includes(secret), lines.at(-1)], [false, 'looked'])
  }
}

const moves: readonly (readonly [string, string])[] = [
  [
    'secrets are moved to where packages lie',
    'mkdir -p node_modules target; mv apps node_modules/; mv .aws target/x; mv .cargo y',
  ],
  [
    'they are moved into a repository',
    'mkdir -p .git/refs/x; mv apps .git/refs/; mv .aws .git/objects/y; mv .cargo .git/refs/x/',
  ],
  ['the repository gets another name', 'mv .git g; ln -s g .git; mv g/objects o'],
  ['folders are closed', 'chmod 000 apps .aws .cargo .git'],
  ['a name is no text', String.raw`mkdir -p d/$(printf '\377'); mv apps .aws .cargo .git d/$(printf '\377')/`],
]

const refused = (...commands: readonly string[]) =>
  commands.map((command) => `{ ${command} 2>/dev/null && echo DONE || echo refused; }`).join('; ')

type Place = AsyncDisposable & {
  readonly workspace: string
  /** A folder of the cell's user that the cell does not see. */
  readonly outside: string
  /** A cell in it, with what the filter hides as it is now. */
  cell(on: Ground, filter: RepoFilter): Promise<AttackedCell>
}

/** A workspace of the cell's user that outlives a cell. */
function makePlace(files: Readonly<Record<string, string>>): Place {
  const base = mkdtempSync(join(tmpdir(), `anchorhold-attack-${ownerMark()}-`))
  chmodSync(base, 0o711)
  const [workspace, outside] = [join(base, 'workspace'), join(base, 'outside')]
  for (const folder of [workspace, outside]) mkdirSync(folder)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(workspace, name)), { recursive: true })
    writeFileSync(join(workspace, name), text)
  }
  if (process.getuid?.() === 0) execFileSync('chown', ['-R', `${trialUser.uid}:${trialUser.gid}`, workspace, outside])
  return {
    ...{ workspace, outside },
    cell: async (on, filter) =>
      on.cell({
        workspace,
        covers: await coverWorkspace(workspace, filter, join(base, 'covers'), hiddenMemory(join(base, 'memory'), filter)),
      }),
    async [Symbol.asyncDispose]() {
      execFileSync('chmod', ['-R', 'u+rwX', base])
      rmSync(base, { recursive: true, force: true })
    },
  }
}

function symlinks({ workspace }: Place, links: Readonly<Record<string, string>>): void {
  for (const [name, target] of Object.entries(links)) execFileSync('ln', ['-s', target, join(workspace, name)])
}
