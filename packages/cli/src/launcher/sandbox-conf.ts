import { Failure } from '@anchorhold/protocol/failures'

/** What a `sandbox.conf` says: assignments and one list, as a shell would read them. It is parsed and never run. */
export type SandboxConf = {
  readonly bridgeUrl?: string
  readonly mounts: readonly string[]
  readonly allowNetwork?: boolean
  readonly localhostOnly?: boolean
  readonly verbose?: boolean
}

export function parseSandboxConf(text: string, path: string, env: Readonly<Record<string, string | undefined>>): SandboxConf {
  const refuse = (line: number, what: string) =>
    new Failure('bad_request', `Cannot read "${path}", line ${line}: ${what}`, {
      hint: 'It takes NAME=value, NAME="value" and EXTRA_MOUNTS=( "source:target:ro" … ), and runs nothing',
    })
  const lines = text.split(/\r?\n/)
  const values = new Map<string, string>()
  const mounts: string[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!.trim()
    if (line === '' || line.startsWith('#')) continue
    const assignment = /^(?:export\s+)?([A-Z_][A-Z0-9_]*)=(.*)$/.exec(line)
    if (assignment === null) throw refuse(at + 1, `"${line}" is not an assignment`)
    const [, name = '', rest = ''] = assignment
    if (!rest.startsWith('(')) {
      const words = wordsOf(rest, env, (what) => refuse(at + 1, what))
      if (words.length > 1) throw refuse(at + 1, 'a value with spaces needs quotes')
      if (!known.has(name)) throw refuse(at + 1, `"${name}" is not known`)
      values.set(name, words[0] ?? '')
      continue
    }
    if (name !== 'EXTRA_MOUNTS') throw refuse(at + 1, `"${name}" is not a list that is known`)
    const begun = at
    let inner = rest.slice(1)
    for (; !/^(?:[^"'#]|"[^"]*"|'[^']*'|#.*$)*\)\s*(?:#.*)?$/.test(lines[at]!.trim()); at++) {
      if (at + 1 >= lines.length) throw refuse(begun + 1, 'the list has no end')
      inner += `\n${lines[at + 1]!}`
    }
    const end = inner.lastIndexOf(')')
    for (const one of inner.slice(0, end).split('\n')) mounts.push(...wordsOf(one, env, (what) => refuse(begun + 1, what)))
  }
  const truth = (name: string): boolean | undefined => {
    const value = values.get(name)
    if (value === undefined) return undefined
    if (/^(?:true|yes|1)$/i.test(value)) return true
    if (/^(?:false|no|0|)$/i.test(value)) return false
    throw new Failure('bad_request', `Cannot read "${path}": ${name} is "${value}", neither true nor false`)
  }
  return {
    ...defined({
      bridgeUrl: values.get('BRIDGE_URL'),
      allowNetwork: truth('ALLOW_NETWORK'),
      localhostOnly: truth('ALLOW_LOCALHOST_ONLY'),
      verbose: truth('VERBOSE'),
    }),
    mounts,
  }
}

const known: ReadonlySet<string> = new Set(['BRIDGE_URL', 'ALLOW_NETWORK', 'ALLOW_LOCALHOST_ONLY', 'VERBOSE'])

/** The words of a line, quotes taken off and variables put in. What a shell would run is refused. */
function wordsOf(line: string, env: Readonly<Record<string, string | undefined>>, refuse: (what: string) => Failure): string[] {
  const words: string[] = []
  let rest = line.trim()
  while (rest !== '' && !rest.startsWith('#')) {
    const word = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"'#;&|<>()]+))(?=\s|$)/.exec(rest)
    if (word === null) throw refuse(`"${rest}" cannot be read`)
    const [all, double, single, bare] = word
    words.push(single ?? expand(double?.replaceAll(/\\(["\\])/g, '$1') ?? bare ?? '', env, refuse))
    rest = rest.slice(all.length).trim()
  }
  return words
}

function expand(value: string, env: Readonly<Record<string, string | undefined>>, refuse: (what: string) => Failure): string {
  if (/`|\$\(/.test(value)) throw refuse('it would run a command')
  return value.replaceAll(
    /\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*)|(.?))/g,
    (_, braced?: string, plain?: string, other?: string) => {
      if (other !== undefined) throw refuse(`"$${other}" cannot be read`)
      const name = (braced ?? plain)!
      const found = env[name]
      if (found === undefined) throw refuse(`the variable "${name}" is not set`)
      return found
    },
  )
}

function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as never
}
