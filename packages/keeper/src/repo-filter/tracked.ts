import { slownessOf } from '@anchorhold/protocol/rungs'
import { chmodSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Cell, Cover } from '../cells/cell.ts'
import { outputOf } from '../cells/output-of.ts'
import { isSettings } from './covers.ts'

type Where = { readonly workspace: string; readonly home: string; readonly covers: readonly Cover[] }

/** Sees to it that git takes what is hidden for unchanged, and commits none of what is seen in its place. Done in the cell, and for git in
 *  this cell alone: the index of a host folder is its owner's. Gives the hidden files that a repository tracks, below the workspace: its
 *  history shows them all the same. Where there is no git in the cell, nothing needs to be done.
 *  Does not stop: an agent that tells git otherwise. What it commits then is what it sees, and that holds no secret. */
export async function keepTracked(cell: Cell, { workspace, home, covers }: Where): Promise<readonly string[]> {
  const hidden = covers.filter((cover) => !isSettings(cover))
  if (hidden.length === 0) return []
  const inside = (path: string) => `${cell.place(workspace)}${path.slice(workspace.length)}`
  const sh = async (script: string, input: string) => {
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: cell.place(home) }
    const process = cell.spawn(['/bin/sh', '-c', script], { env, cwd: cell.place(workspace) })
    process.stdin.end(input)
    return (await outputOf(process, { bytesMax: answerBytesMax, withinMs: withinMs * slownessOf(cell.limits) })).text
  }
  const byPlace = new Map(hidden.map((cover) => [inside(cover.path), cover]))
  const found = foundIn(await sh(look, [...byPlace.keys()].map((path) => `${path}\0`).join('')))
  const tracked: string[] = []
  for (const { place, files } of found) {
    const cover = byPlace.get(place)
    if (cover === undefined) continue
    for (const file of files) {
      tracked.push(join(dirname(cover.path), file.path).slice(workspace.length + 1))
      fill(cover, file)
    }
  }
  const top = cell.place(workspace)
  const prefixes = new Map(found.map(({ place, prefix }) => [place, prefix]))
  const patterns = [...byPlace.keys()].map((place) => {
    const prefix = prefixes.get(place) ?? `${dirname(place)}/`.slice(top.length + 1)
    return patternOf(`/${prefix}${basename(place)}`)
  })
  // A pattern that begins with a quote is read as C would read it; no other way is there for a space or a line's end.
  const attributes = patterns.flatMap((one) => [one, `${one}/**`].map((each) => `${JSON.stringify(each)} ${attribute}\n`))
  // Files that ignore have no quotes. A name with a line's end is then shown as new, and cannot be added.
  const ignored = patterns.filter((one) => !one.includes('\n')).map((one) => `${one}\n`)
  await sh(settle, `${attributes.join('')}\n${ignored.join('')}`)
  // A repository may be large, and git goes on without.
  await sh(refresh, [...byPlace.keys()].map((path) => `${path}\0`).join('')).catch(() => '')
  return [...new Set(tracked)]
}

const answerBytesMax = 8 * 1024 * 1024
const withinMs = 20_000
/** So many lines are still put in a file's place. A larger one is shown as changed, and is not committed all the same. */
const sizeMax = 1024 * 1024
const name = 'anchorhold-hidden'
const attribute = `filter=${name}`

/** Of each path its place, where it is in its repository, and what is tracked there; an empty word ends it. No program is run that the
 *  repository names. */
const git = `git -C "\${p%/*}" -c safe.directory='*' -c core.fsmonitor=false`
const each = (script: string) =>
  `command -v git >/dev/null || exit 0; exec xargs -0 -n 100 /bin/sh -c '${script.replaceAll("'", `'\\''`)}' sh`
const look = each(`export GIT_LITERAL_PATHSPECS=1 GIT_OPTIONAL_LOCKS=0
  for p; do
    prefix=$(${git} rev-parse --show-prefix 2>/dev/null) || continue
    printf '%s\\0%s\\0' "$p" "$prefix"
    ${git} ls-files -z --debug -- "\${p##*/}" 2>/dev/null
    printf '\\0'
  done`)

/** git looks at a file's content where its size is what git remembers, so what is seen in its place has as many lines as it has bytes. Such
 *  a content is exchanged for the tracked one before it is held against that, and where nothing is tracked it is refused. */
const clean = `if [ -n "$(tr -d "\\n" < %f)" ]; then cat; else git cat-file blob :0:%f 2>/dev/null || git cat-file blob HEAD:%f; fi`
const settle = `command -v git >/dev/null || exit 0
  folder="$HOME/.config/git"; mkdir -p "$folder" || exit 1
  exec 3>"$folder/${name}.attributes" 4>"$folder/${name}.ignore"
  cat "$folder/attributes" >&3 2>/dev/null; cat "$folder/ignore" >&4 2>/dev/null
  to=3; while IFS= read -r line; do if [ -z "$line" ]; then to=4; else printf '%s\\n' "$line" >&$to; fi; done
  set_to() { git config --global --replace-all "$1" "$2"; }
  set_to core.attributesFile "$folder/${name}.attributes"
  set_to core.excludesFile "$folder/${name}.ignore"
  set_to filter.${name}.clean '${clean}'
  set_to filter.${name}.smudge cat
  set_to filter.${name}.required true`
/** So that no command finds out on its way that the size and time of what is covered are new, and wants to write it anew. */
const refresh = each(`for p; do ${git} update-index -q --refresh >/dev/null 2>&1; done`)

type Tracked = { readonly path: string; readonly bytes: number }
type Found = { readonly place: string; readonly prefix: string; readonly files: readonly Tracked[] }

/** What `look` says. It may be anything: the repository's own, or that of a git that somebody has put there. */
function foundIn(said: string): readonly Found[] {
  const words = said.split('\0')
  const found: Found[] = []
  for (let at = 0; at + 2 < words.length; at++) {
    const [place = '', prefix = ''] = words.slice(at, at + 2)
    const files: { path: string; bytes: number }[] = []
    for (at += 2; ; at++) {
      const word = words[at] ?? ''
      // What is remembered of a file stands behind its name, in lines of its own, and the next name behind that.
      const about = remembered.exec(word)
      const last = files.at(-1)
      if (about !== null && last !== undefined) last.bytes = Number(about[1])
      const path = word.slice(about?.[0].length ?? 0)
      if (path === '') break
      files.push({ path, bytes: 0 })
    }
    found.push({ place, prefix, files: files.filter(({ path }) => isBelow(path)) })
  }
  return found
}
/** ls-files(1), --debug. Should it have another form one day, sizes are unknown. */
const remembered = /^ {2}ctime: [^\n]*\n {2}mtime: [^\n]*\n {2}dev: [^\n]*\n {2}uid: [^\n]*\n {2}size: (\d+)\t[^\n]*\n/
const isBelow = (path: string) => !path.startsWith('/') && !path.split('/').some((part) => ['', '.', '..'].includes(part))

/** Puts as many empty lines in a tracked file's place as it has bytes, as far as git remembers. */
function fill({ path, by }: Cover, file: Tracked): void {
  const below = file.path.slice(basename(path).length + 1)
  const at = below === '' ? by : join(by, below)
  if (file.bytes > sizeMax) return
  try {
    const { mode } = lstatSync(by)
    chmodSync(by, mode | 0o200)
    if (below !== '') mkdirSync(dirname(at), { recursive: true, mode: 0o755 })
    writeFileSync(at, '\n'.repeat(file.bytes), { mode: 0o644 })
    chmodSync(by, mode)
  } catch {
    // A name that cannot be had is shown as deleted. It is not committed unless somebody says so.
  }
}

/** What gitignore(5) would take for more than a name. */
const patternOf = (path: string) => path.replaceAll(/[*?[\]\\!#]/g, '\\$&').replaceAll(/ $/g, '\\ ')
