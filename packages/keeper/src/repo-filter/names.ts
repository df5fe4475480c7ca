import { standardNames as standard } from '@anchorhold/core/policy/repo-filters'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import picomatch from 'picomatch'

/** Whether a file or folder is to be hidden, by its path below the workspace. */
export type Hides = (path: string) => boolean

/** What also tends to hold secrets, and is missed more often when it is hidden. */
const strict = [
  ...['*.tfvars', '*.tfvars.json', '*.tfstate', '*.tfstate.*', '*.ovpn', '*.crt.key', '.npmrc', '.yarnrc.yml', 'pip.conf'],
  ...['*secret*.{json,yaml,yml,toml,ini,txt,properties,xml}', '*credential*.{json,yaml,yml,toml,ini,txt,properties,xml}'],
  ...['*token*.{json,yaml,yml,toml,ini,txt}', '*password*.{json,yaml,yml,toml,ini,txt}', '.aws', '.azure', '.gcloud', '.kube'],
]

/** Folders of other people's packages, which hold most of the files and hardly anybody's secrets. */
const othersWork: ReadonlySet<string> = new Set(['node_modules', 'site-packages', '.venv', 'target', '.gradle'])
export const isOthersWork = (below: string) => below.split('/').some((name) => othersWork.has(name))

export type Filter = {
  readonly hides: Hides
  /** Whether a folder of this name may be one that a pattern of several names goes through. */
  leadsOn(name: string): boolean
  /** How many folders a pattern goes through at most, from the first one that it names on. */
  readonly depthMax: number
}

/** No path leads through more links than this (path_resolution(7)). */
const linksMax = 40

export function filterOf(filter: RepoFilter): Filter {
  if (filter === 'none') return { hides: () => false, leadsOn: () => false, depthMax: 0 }
  const [hide, show] =
    filter === 'standard'
      ? [standard.hide, standard.show]
      : filter === 'strict'
        ? [[...standard.hide, ...strict], standard.show]
        : [filter.denylist, filter.allowlist]
  const [isHidden, isShown] = [matcher(hide), matcher(show)]
  const between = hide.flatMap((one) => one.split('/').slice(0, -1)).filter((part) => !/^\*+$/.test(part))
  return {
    hides: (path) => isHidden(path) && !isShown(path),
    leadsOn: oneOf(between),
    depthMax: Math.max(0, ...hide.map(depthOf)),
  }
}

function depthOf(pattern: string): number {
  const folders = pattern
    .replace(/^(?:\*\*\/)+/, '')
    .split('/')
    .slice(0, -1)
  return folders.includes('**') ? linksMax : folders.length
}

/** Names are compared without regard to case: some file systems do, and `.ENV` is as secret as `.env`. */
function matcher(patterns: readonly string[]): Hides {
  const names = oneOf(patterns.filter((one) => !one.includes('/')))
  const paths = oneOf(patterns.filter((one) => one.includes('/')))
  return (path) => names(path.slice(path.lastIndexOf('/') + 1)) || paths(path)
}

/** One expression for all of them: every file of a workspace is held against it. */
function oneOf(patterns: readonly string[]): Hides {
  if (patterns.length === 0) return () => false
  const all = patterns.map((one) => `(?:${picomatch.makeRe(one, { dot: true, nocase: true }).source})`)
  const any = new RegExp(all.join('|'), 'i')
  return (path) => any.test(path)
}
