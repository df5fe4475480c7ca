import { noSettings, type PolicySettings } from '@anchorhold/core/policy/effective'
import { sizeWords } from '@anchorhold/core/size-words'
import { Failure } from '@anchorhold/protocol/failures'
import type { PolicyProblem, Rule } from '@anchorhold/protocol/policy'
import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  type FSWatcher,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
  watch,
} from 'node:fs'
import { join } from 'node:path'
import { allDenied } from './all-denied.ts'
import { appendRule, replaceFile } from './append-rule.ts'
import { againstHouse } from './contradictions.ts'
import { lineOfLimit, policyBytesMax, readPolicy, tooLarge } from './read-policy.ts'

/** Editors write a file in several steps; what comes within this is one change. */
const settleMs = 200
/** What the system did not tell of is found by then: a folder that was mounted or put in another's place. */
const lookEveryMs = 60_000
const houseFile = 'policy.yaml'
const folderName = 'policies'
const policyName = /^[a-z][a-z0-9-]{0,39}$/
const namedMax = 500

/** A policy file and what of it is in force: as it stands now; as it stood when it could last be used; nothing but refusals; or, of
 *  one that was taken away, what it said to those who were given it. */
export type PolicyState = {
  readonly file: string
  /** Null for the policy of the house. */
  readonly name: string | null
  readonly inForce: 'current' | 'last good' | 'locked' | 'gone'
  readonly settings: PolicySettings
  readonly problems: readonly PolicyProblem[]
  readonly text: string
}

/** Who has changed a file through a door of ours; nobody is known where the file was changed by itself. */
export type PolicyAuthor = { readonly actor: string; readonly door: string }

/** What is in force under a name from now on, by its digest; null when it was taken away. */
export type PolicyChange = { readonly file: string; readonly sha256: string | null }

export interface Policies {
  /** The policy of the house. */
  house(): PolicyState
  /** A named one, also when it was taken away since; null when there never was one of that name. */
  named(name: string): PolicyState | null
  list(): readonly PolicyState[]
  /** Grows with each change of what is in force. */
  readonly version: number
  /** Looks at the files again, now. */
  look(): void
  /** The same for somebody who means what they say now, also where that is nothing. */
  reload(): void
  /** Writes a rule at the end of the policy of the house. What it returns puts the rule in force and tells of it: whoever writes one
   *  within a transaction calls that after the commit. */
  addRule(rule: Rule, author: PolicyAuthor): () => void
  /** Replaces the file of the house, or a named one, by a text that can be used; it is in force when this returns. */
  write(name: string | null, text: string, author: PolicyAuthor): void
  /** Called after each change of what is in force, with what changed. Returns how to end that. */
  onChange(listener: PolicyListener): () => void
  close(): void
}

type Loading = { readonly before?: PolicyState | null; readonly isMeant: boolean }
type PolicyListener = (changed: readonly PolicyChange[], author: PolicyAuthor | null) => void

export type PoliciesOptions = {
  /** Where `policy.yaml` and `policies/` are. */
  readonly folder: string
  /** Where the last usable text of each is kept. */
  readonly memory: string
  readonly log: (message: string) => void
}

/** The policy files of the house, watched. Invariant: a file that cannot be used changes nothing of what is in force, and neither does one
 *  that is emptied or gone before somebody says that this is meant. */
export function policies({ folder, memory, log }: PoliciesOptions): Policies {
  mkdirSync(memory, { recursive: true, mode: 0o700 })
  const listeners = new Set<PolicyListener>()
  let house = load(houseFile, null, { isMeant: false })
  let named = loadNamed()
  let voids = compared()
  let version = 1
  let timer: NodeJS.Timeout | null = null
  const watchers = new Map<string, { readonly watcher: FSWatcher; readonly of: string }>()
  watchFolders()
  const looking = setInterval(soon, lookEveryMs).unref()

  function load(file: string, name: string | null, { before = null, isMeant }: Loading): PolicyState {
    const path = join(folder, file)
    const text = readText(path, file)
    // What has not changed is not read again: that would take as long as all files together.
    if (before?.inForce === 'current' && text === before.text) return before
    const kept = join(memory, file.replaceAll('/', '-'))
    if (typeof text === 'string') {
      if (name === null && !isMeant && isEmpty(text) && !isEmpty(textOf(kept) ?? '')) {
        const message = 'It is empty or gone. Where that is meant: anchorhold policy reload'
        return fallBack(file, name, kept, [{ file, line: 1, column: 1, level: 'error', message }], text)
      }
      const { settings, problems } = readPolicy(file, text)
      if (settings !== null) {
        remember(kept, text)
        return { file, name, inForce: 'current', settings, problems, text }
      }
      return fallBack(file, name, kept, problems, text)
    }
    if (text === null)
      return { file, name, inForce: 'gone', settings: lastGood(file, kept) ?? locked(file), problems: [], text: '' }
    return fallBack(file, name, kept, [text], '')
  }

  /** What is in force does not wait for room on the disk. */
  function remember(kept: string, text: string): void {
    try {
      if (textOf(kept) !== text) replaceFile(kept, text)
    } catch (error) {
      log(`Cannot keep a copy of a policy in "${kept}": ${wordsOf(error)}`)
    }
  }

  /** What the house makes void of each named one. */
  function compared(): ReadonlyMap<string, readonly PolicyProblem[]> {
    return new Map([...named].map(([name, { settings }]) => [name, againstHouse(house.settings, settings)]))
  }

  function fallBack(
    file: string,
    name: string | null,
    kept: string,
    problems: readonly PolicyProblem[],
    text: string,
  ): PolicyState {
    const last = lastGood(file, kept)
    const [first] = problems
    log(
      `${file}${first === undefined ? '' : `:${first.line}: ${first.message}`}; ${last === null ? 'nothing is allowed under it' : 'the last good one stays in force'}`,
    )
    return { file, name, inForce: last === null ? 'locked' : 'last good', settings: last ?? locked(file), problems, text }
  }

  function loadNamed(before: ReadonlyMap<string, PolicyState> = new Map()): ReadonlyMap<string, PolicyState> {
    const at = join(folder, folderName)
    const there = existsSync(at) && statSync(at).isDirectory() ? readdirSync(at).filter((name) => name.endsWith('.yaml')) : []
    // One that was taken away holds for those who were given it.
    const kept = readdirSync(memory).flatMap((name) =>
      name.startsWith(`${folderName}-`) ? [name.slice(folderName.length + 1)] : [],
    )
    const names = [...new Set([...there, ...kept])]
      .map((name) => name.slice(0, -'.yaml'.length))
      .filter((name) => policyName.test(name))
    for (const name of there)
      if (!policyName.test(name.slice(0, -'.yaml'.length)))
        log(`${folderName}/${name}: not taken: a policy's name has small letters, digits and dashes`)
    return new Map(
      names
        .slice(0, namedMax)
        .map((name) => [name, load(`${folderName}/${name}.yaml`, name, { before: before.get(name) ?? null, isMeant: true })]),
    )
  }

  /** What is watched may appear later, so the folder above is watched too. */
  function watchFolders(): void {
    for (const path of [folder, join(folder, folderName)]) {
      const there = statSync(path, { throwIfNoEntry: false })
      // Another folder of the same name is another folder.
      const of = there === undefined ? null : `${there.dev}:${there.ino}`
      const before = watchers.get(path)
      if (before?.of === of) continue
      before?.watcher.close()
      watchers.delete(path)
      if (of === null) continue
      try {
        const watcher = watch(path, () => soon())
        watcher.unref()
        watcher.on('error', () => {
          watcher.close()
          if (watchers.get(path)?.watcher === watcher) watchers.delete(path)
        })
        watchers.set(path, { watcher, of })
      } catch (error) {
        log(`Cannot watch "${path}": ${wordsOf(error)}; anchorhold policy reload looks again`)
      }
    }
  }

  function soon(): void {
    timer ??= setTimeout(() => {
      timer = null
      try {
        reload({ isMeant: false })
      } catch (error) {
        log(`Cannot look at the policies: ${wordsOf(error)}`)
      }
    }, settleMs).unref()
    timer.refresh()
  }

  function reload({ author = null, isMeant }: { readonly author?: PolicyAuthor | null; readonly isMeant: boolean }): void {
    const before = fingerprints()
    house = load(houseFile, null, { before: house, isMeant })
    named = loadNamed(named)
    voids = compared()
    watchFolders()
    const changed = fingerprints().filter(({ file, all }) => before.find((one) => one.file === file)?.all !== all)
    if (changed.length === 0) return
    version++
    const told = changed.map(({ file, sha256 }) => ({ file, sha256 }))
    for (const listener of listeners) {
      try {
        listener(told, author)
      } catch (error) {
        log(`Cannot tell of a changed policy: ${wordsOf(error)}`)
      }
    }
  }

  const fingerprints = () =>
    [house, ...named.values()].map(({ file, inForce, settings, problems }) => ({
      file,
      all: JSON.stringify([inForce, settings, problems]),
      sha256: inForce === 'gone' ? null : createHash('sha256').update(JSON.stringify(settings)).digest('hex'),
    }))

  return {
    house: () => house,
    named: (name) => named.get(name) ?? null,
    list: () =>
      [house, ...named.values()].flatMap((one) =>
        one.inForce === 'gone'
          ? []
          : [{ ...one, problems: [...one.problems, ...(one.name === null ? [] : (voids.get(one.name) ?? []))] }],
      ),
    get version() {
      return version
    },
    look: () => reload({ isMeant: false }),
    reload: () => reload({ isMeant: true }),
    addRule(rule, author) {
      if (house.inForce === 'last good' && isEmpty(house.text))
        throw new Failure(
          'conflict',
          `Cannot add a rule to "${houseFile}": it is empty or gone, and what it said is still in force`,
          {
            hint: 'Put it back, or say that this is meant: anchorhold policy reload',
          },
        )
      appendRule(join(folder, houseFile), rule)
      return () => reload({ author, isMeant: true })
    },
    write(name, text, author) {
      const file = name === null ? houseFile : `${folderName}/${name}.yaml`
      refuseUnusable(file, text)
      if (name !== null) mkdirSync(join(folder, folderName), { recursive: true, mode: 0o700 })
      const path = join(folder, file)
      replaceFile(existsSync(path) ? realpathSync(path) : path, text)
      reload({ author, isMeant: true })
    },
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close() {
      if (timer !== null) clearTimeout(timer)
      clearInterval(looking)
      for (const { watcher } of watchers.values()) watcher.close()
      watchers.clear()
      listeners.clear()
    },
  }
}

/** What would only leave the last good one in force is not written at all. */
function refuseUnusable(file: string, text: string): void {
  const tooLarge = Buffer.byteLength(text) > policyBytesMax
  const { settings, problems } = tooLarge ? { settings: null, problems: [] } : readPolicy(file, text)
  if (settings !== null) return
  const first = problems.find(({ level }) => level === 'error')
  const why = tooLarge
    ? `it is larger than ${sizeWords(policyBytesMax)}`
    : `line ${first?.line ?? 1}: ${first?.message ?? 'it cannot be used'}`
  throw new Failure('bad_request', `Cannot write "${file}": ${why}`, {
    hint: 'Nothing was changed; the check shows all that is wrong with it',
  })
}

const wordsOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
const isEmpty = (text: string) => text.trim() === ''
const textOf = (kept: string): string | null => (existsSync(kept) ? readFileSync(kept, 'utf8') : null)

function lastGood(file: string, kept: string): PolicySettings | null {
  const text = textOf(kept)
  return text === null ? null : readPolicy(file, text).settings
}

/** The text, or why there is none; null for a named one that was taken away. The house needs no policy. */
function readText(path: string, file: string): string | PolicyProblem | null {
  const problem = (message: string): PolicyProblem => ({ file, line: 1, column: 1, level: 'error', message })
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (found === undefined) return file === houseFile ? '' : null
    // A pipe would hold up the house.
    if (!found.isFile()) return problem('It is no file')
    if (found.size > policyBytesMax) return { ...problem(tooLarge), line: lineOfLimit(beginning(path)) }
    return readFileSync(path, 'utf8')
  } catch (error) {
    return problem(`It cannot be read: ${wordsOf(error)}`)
  }
}

function beginning(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(policyBytesMax)
    return bytes.subarray(0, readSync(file, bytes, 0, policyBytesMax, 0))
  } finally {
    closeSync(file)
  }
}

/** What holds where a policy was meant and none can be had: nothing is allowed. */
function locked(file: string): PolicySettings {
  return { ...noSettings(file), ...allDenied(`${file} cannot be used: anchorhold policy check says why`, 1) }
}
