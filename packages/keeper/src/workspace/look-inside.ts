import type { ChangedFile, Changes, CheckedOut, FileEntry, WorkspaceAsk, workspaceBounds } from '@anchorhold/protocol/workspace'

/** Runs inside the cell, by our own Node, in the workspace: answers one question on its standard input, and ends.
 *  Its source is what is run there, so it uses nothing from around it.
 *  Invariant: what is read or written lies in the workspace. A link that leads out of it is refused by what was opened, not by
 *  what it was called, so swapping one in between gains nothing. */
export function lookInside(): void {
  const fs = process.getBuiltinModule('node:fs')
  const paths = process.getBuiltinModule('node:path')
  const { spawnSync } = process.getBuiltinModule('node:child_process')
  const { asked, bounds } = JSON.parse(fs.readFileSync(0, 'utf8')) as {
    readonly asked: WorkspaceAsk
    readonly bounds: Readonly<Record<keyof typeof workspaceBounds, number>>
  }
  const root = fs.realpathSync('.')
  class Refused extends Error {
    readonly code: 'not_found' | 'bad_request' | 'too_large'
    constructor(code: Refused['code'], message: string) {
      super(message)
      this.code = code
    }
  }
  const say = (said: unknown) => process.stdout.write(JSON.stringify(said))
  const isInside = (path: string) => path === root || path.startsWith(`${root === '/' ? '' : root}/`)
  const quoted = (path: string) => JSON.stringify(path === '' ? '.' : path)

  /** Opened without waiting: a pipe that nobody writes to would hold this up for good. */
  function openFile(path: string): number {
    let file: number
    try {
      file = fs.openSync(paths.resolve(root, path), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
    } catch {
      throw new Refused('not_found', `There is no file ${quoted(path)} that can be read`)
    }
    requireInside(file, path)
    if (!fs.fstatSync(file).isFile()) throw new Refused('bad_request', `${quoted(path)} is no file`)
    return file
  }
  /** The folder that was looked at, by a name that stays its own whatever becomes of `path`. */
  function openFolder(path: string): { readonly at: string; close(): void } {
    const there = paths.resolve(root, path)
    let file: number
    try {
      file = fs.openSync(there, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
    } catch {
      throw new Refused('not_found', `There is no folder ${quoted(path)} that can be read`)
    }
    requireInside(file, path)
    const held = `/proc/self/fd/${file}`
    return { at: fs.existsSync(held) ? held : there, close: () => fs.closeSync(file) }
  }
  /** What the kernel says was opened. Where there is no /proc, what the path leads to now. */
  function requireInside(file: number, path: string): void {
    let opened: string
    try {
      opened = fs.readlinkSync(`/proc/self/fd/${file}`)
    } catch {
      opened = fs.realpathSync(paths.resolve(root, path))
    }
    if (!isInside(opened)) throw new Refused('bad_request', `${quoted(path)} leads out of the workspace`)
  }
  function contentOf(file: number, most: number): Buffer {
    const content = Buffer.alloc(Math.min(most, fs.fstatSync(file).size))
    let length = 0
    for (let read = -1; read !== 0 && length < content.length; length += read)
      read = fs.readSync(file, content, length, content.length - length, length)
    return content.subarray(0, length)
  }
  /** As git sees it: text has no zero byte near its beginning. */
  const isBinary = (content: Buffer) => content.subarray(0, 8000).includes(0)

  function list(path: string) {
    const entries: FileEntry[] = []
    let more = false
    const { at, close } = openFolder(path)
    const folder = fs.opendirSync(at)
    for (let entry = folder.readSync(); entry !== null; entry = folder.readSync()) {
      if (entries.length === bounds.entries) {
        more = true
        break
      }
      const kind = entry.isSymbolicLink() ? 'link' : entry.isDirectory() ? 'folder' : entry.isFile() ? 'file' : 'other'
      try {
        const { size, mtimeMs } = fs.lstatSync(`${at}/${entry.name}`)
        entries.push({ name: entry.name, kind, size, changed_at: Math.round(mtimeMs) })
      } catch {
        // It was removed in between.
      }
    }
    folder.closeSync()
    close()
    const rank = ({ kind }: FileEntry) => (kind === 'folder' ? 0 : 1)
    entries.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1))
    return { entries, more }
  }

  function read(path: string) {
    const file = openFile(path)
    const { size } = fs.fstatSync(file)
    const content = contentOf(file, bounds.textBytes)
    return {
      size,
      text: isBinary(content) ? null : content.toString('utf8').slice(0, bounds.textBytes),
      truncated: size > content.length,
    }
  }

  function bytes(path: string) {
    const file = openFile(path)
    if (fs.fstatSync(file).size > bounds.downloadBytes)
      throw new Refused('too_large', `${quoted(path)} is larger than ${bounds.downloadBytes / 1024 ** 2} MiB`)
    return { base64: contentOf(file, bounds.downloadBytes).toString('base64') }
  }

  function put(name: string, base64: string) {
    try {
      fs.mkdirSync(paths.join(root, 'uploads'))
    } catch {
      // It is there already; what it is shows next.
    }
    const { at } = openFolder('uploads')
    const { name: stem, ext } = paths.parse(name)
    for (let n = 1; n <= 1000; n++) {
      const fresh = n === 1 ? name : `${stem}-${n}${ext}`
      const path = `uploads/${fresh}`
      let file: number
      try {
        const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants
        file = fs.openSync(`${at}/${fresh}`, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue
        throw new Refused('bad_request', `Cannot write to "uploads": ${(error as NodeJS.ErrnoException).code ?? 'it failed'}`)
      }
      requireInside(file, path)
      fs.writeFileSync(file, Buffer.from(base64, 'base64'))
      return { path }
    }
    throw new Refused('bad_request', `There are too many files called ${quoted(name)}`)
  }

  /** Never asks, waits for a lock or looks above the workspace; runs no program that a repository names, but its filters. */
  function git(args: readonly string[], most: number) {
    const settings = [
      'core.fsmonitor=false',
      'core.hooksPath=/dev/null',
      'core.quotePath=false',
      'color.ui=false',
      'diff.external=',
      'attr.tree=',
    ]
    const ran = spawnSync('git', [...settings.flatMap((one) => ['-c', one]), ...args], {
      cwd: root,
      maxBuffer: most,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0', GIT_CEILING_DIRECTORIES: paths.dirname(root) },
    })
    const code = ran.error === undefined ? null : (ran.error as NodeJS.ErrnoException).code
    const cut = code === 'ENOBUFS'
    return {
      ok: cut || ran.status === 0,
      missing: code === 'ENOENT',
      cut,
      out: String(ran.stdout ?? ''),
      err: String(ran.stderr ?? ''),
    }
  }
  const untracked = () => git(['ls-files', '--others', '--exclude-standard', '-z'], 4_000_000)
  /** What was cut off in the middle of a name is left out. */
  const namesIn = ({ out, cut }: { readonly out: string; readonly cut: boolean }) => out.split('\0').slice(0, cut ? -2 : -1)

  function names() {
    const known = git(['ls-files', '--cached', '--others', '--exclude-standard', '-z'], 4_000_000)
    const found = known.ok ? [...new Set(namesIn(known))] : walk()
    return { names: found.slice(0, bounds.names), more: known.cut || found.length > bounds.names }
  }
  function walk(): string[] {
    const found: string[] = []
    const folders = ['']
    for (let at = folders.shift(); at !== undefined && found.length <= bounds.names; at = folders.shift()) {
      let entries: ReturnType<typeof list>['entries']
      try {
        ;({ entries } = list(at))
      } catch {
        continue
      }
      for (const { name, kind } of entries) {
        if (name.startsWith('.') || name === 'node_modules') continue
        const path = at === '' ? name : `${at}/${name}`
        if (kind === 'folder') folders.push(path)
        else found.push(path)
      }
    }
    return found
  }

  function checkedOut(): CheckedOut {
    const branch = git(['symbolic-ref', '--short', '-q', 'HEAD'], 100_000).out.trim().slice(0, 1000)
    const commit = git(['rev-parse', '--verify', '-q', 'HEAD^{commit}'], 1000).out.trim()
    return { branch: branch === '' ? null : branch, commit: /^[0-9a-f]{40,64}$/.test(commit) ? commit : null }
  }

  function changes(since: string): Changes {
    const inRepository = git(['rev-parse', '--is-inside-work-tree'], 100_000)
    if (inRepository.missing) return { git: false, why: 'no_git', message: 'There is no git in this cell' }
    if (!inRepository.ok || inRepository.out.trim() !== 'true')
      return { git: false, why: 'no_repository', message: inRepository.err.trim().slice(0, 500) }
    const { branch, commit } = checkedOut()
    const against = since === 'head' ? (commit ?? 'none') : since
    const last =
      against === 'none' ? null : git(['log', '-1', '--no-show-signature', '--format=%h%x00%s', against, '--'], 100_000)
    if (last?.ok === false) return { git: false, why: 'unreadable', message: last.err.trim().slice(0, 500) }
    const [hash = '', subject = ''] = last?.out.trim().split('\0') ?? []
    // What has no commit to be held against is held against an empty repository.
    const base = hash === '' ? git(['hash-object', '-t', 'tree', '/dev/null'], 1000).out.trim() : against
    const asFiles = ['--submodule=short', '--ignore-submodules=dirty']
    const plain = ['--no-ext-diff', '--no-textconv', '--no-color', '--find-renames', ...asFiles, base, '--']
    const statuses = git(['diff', '--name-status', '-z', ...plain], 4_000_000)
    const counts = git(['diff', '--numstat', '-z', ...plain], 4_000_000)
    const patched = git(['diff', '--patch', ...plain], 8_000_000)
    for (const ran of [statuses, counts, patched])
      if (!ran.ok) return { git: false, why: 'unreadable', message: ran.err.trim().slice(0, 500) }
    const words = { A: 'added', D: 'deleted', R: 'renamed', C: 'added' } as const
    const files: ChangedFile[] = []
    const entries = entriesIn(namesIn(statuses))
    const patches = patchesOf(entries, patched, statuses.cut)
    const numbers = namesIn(counts)
    let left = bounds.patchesChars
    let n = 0
    for (const [index, { mark, from, path }] of entries.entries()) {
      const [added = '-', removed = '-', name = ''] = (numbers[n] ?? '').split('\t')
      n += name === '' && from !== null ? 3 : 1
      const binary = added === '-'
      const bounded = binary ? { patch: null, truncated: false } : bound(patches[index], left)
      left -= bounded.patch?.length ?? 0
      const status = mark in words ? words[mark as keyof typeof words] : 'modified'
      const counted = (text: string) => (binary ? null : Number(text))
      files.push({ path, from, status, added: counted(added), removed: counted(removed), binary, ...bounded })
    }
    const others = untracked()
    const fresh = namesIn(others)
    const all = files.length + fresh.length
    for (const path of fresh.slice(0, Math.max(0, bounds.changedFiles - files.length))) {
      const one = freshFile(path, left)
      left -= one.patch?.length ?? 0
      files.push(one)
    }
    return {
      git: true,
      branch,
      head: hash === '' ? null : { hash: hash.slice(0, 100), subject: subject.slice(0, 1000) },
      files: files.slice(0, bounds.changedFiles),
      more: statuses.cut || others.cut || all > bounds.changedFiles,
    }
  }
  type Entry = { readonly mark: string; readonly from: string | null; readonly path: string }
  function entriesIn(told: readonly string[]): Entry[] {
    const entries: Entry[] = []
    for (let at = 0; at < told.length;) {
      const mark = told[at]!.charAt(0)
      const moved = mark === 'R' || mark === 'C'
      const [from, path] = moved ? [told[at + 1]!, told[at + 2]] : [null, told[at + 1]]
      at += moved ? 3 : 2
      if (path !== undefined) entries.push({ mark, from, path })
    }
    return entries
  }
  /** What was changed in each, by their order. Where the two do not agree on how many there are, nothing: better than another's. */
  function patchesOf(entries: readonly Entry[], patched: ReturnType<typeof git>, more: boolean): (string | undefined)[] {
    // No line of a patch itself begins so: each has a sign before it. A line ends where git ends one, and nowhere else.
    const sections = patched.out.split(/(?<=\n)(?=diff --git )/).filter((part) => part.startsWith('diff --git '))
    // The last one may have been cut off.
    const whole = patched.cut ? sections.slice(0, -1) : sections
    let next = 0
    const patches = entries.map(({ mark }) => {
      // A file that becomes a link is told as one that goes and another that comes.
      const parts = mark === 'T' ? 2 : 1
      const mine = whole.slice(next, next + parts)
      next += parts
      return mine.length === parts ? mine.map(hunksIn).join('') : undefined
    })
    return patched.cut || more || next === sections.length ? patches : []
  }
  function hunksIn(section: string): string {
    const before = section.indexOf('\n@@')
    return before === -1 ? '' : section.slice(before + 1)
  }
  function bound(lines: string | undefined, left: number): Pick<ChangedFile, 'patch' | 'truncated'> {
    const most = Math.min(bounds.patchChars, left)
    if (lines === undefined) return { patch: null, truncated: true }
    if (lines.length <= most) return { patch: lines, truncated: false }
    const whole = lines.lastIndexOf('\n', most - 1)
    return most < 1000 || whole < 1 ? { patch: null, truncated: true } : { patch: lines.slice(0, whole), truncated: true }
  }
  function freshFile(path: string, left: number): ChangedFile {
    const about = { path, from: null, status: 'untracked', removed: 0 } as const
    try {
      const file = openFile(path)
      const content = contentOf(file, bounds.patchChars)
      const { size } = fs.fstatSync(file)
      fs.closeSync(file)
      if (isBinary(content)) return { ...about, added: null, removed: null, binary: true, patch: null, truncated: false }
      const lines = content.toString('utf8').replace(/\n$/, '').split('\n')
      const known = size === 0 ? 0 : lines.length
      const bounded = bound(known === 0 ? '' : `@@ -0,0 +1,${known} @@\n${lines.map((line) => `+${line}`).join('\n')}\n`, left)
      const truncated = bounded.truncated || size > content.length
      return { ...about, added: truncated ? null : known, binary: false, ...bounded, truncated }
    } catch {
      // A link that leads out, a pipe, or something that is gone.
      return { ...about, added: null, removed: null, binary: false, patch: null, truncated: false }
    }
  }

  function answer() {
    switch (asked.ask) {
      case 'list':
        return list(asked.path)
      case 'read':
        return read(asked.path)
      case 'bytes':
        return bytes(asked.path)
      case 'put':
        return put(asked.name, asked.base64)
      case 'names':
        return names()
      case 'checked_out':
        return checkedOut()
      case 'changes':
        return changes(asked.since)
    }
  }
  try {
    say({ answer: answer() })
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    say({ refused: error.code, message: error.message })
  }
}
