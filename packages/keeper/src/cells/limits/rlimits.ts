import { existsSync, readFileSync } from 'node:fs'

/** What prlimit(1) sets before it becomes the command. */
export type Rlimits = { readonly nofile: number; readonly fsize: number; readonly core: number; readonly nproc: number | null }

/** As /proc/PID/limits names them. */
const rows = {
  nofile: 'Max open files',
  fsize: 'Max file size',
  core: 'Max core file size',
  nproc: 'Max processes',
} as const satisfies Record<keyof Rlimits, string>

/** What may be set here: nobody but a privileged process can go above its own hard limit. */
export function affordable(wanted: Rlimits, own: string = readFileSync('/proc/self/limits', 'latin1')): Rlimits {
  const cap = (name: keyof Rlimits, value: number) => Math.min(value, hardLimit(own, name) ?? value)
  return {
    nofile: cap('nofile', wanted.nofile),
    fsize: cap('fsize', wanted.fsize),
    core: cap('core', wanted.core),
    nproc: wanted.nproc === null ? null : cap('nproc', wanted.nproc),
  }
}

export function prlimitArgv(prlimitPath: string, limits: Partial<Rlimits>): [string, ...string[]] {
  const options = Object.entries(limits).flatMap(([name, value]) => (value === null ? [] : [`--${name}=${value}:${value}`]))
  return [prlimitPath, ...options, '--']
}

/** The hard limit in the text of a /proc/PID/limits; Infinity when unlimited, null when it is not there. */
export function hardLimit(text: string, name: keyof Rlimits): number | null {
  const row = text.split('\n').find((line) => line.startsWith(rows[name]))
  const [, hard] = row?.slice(rows[name].length).trim().split(/\s+/) ?? []
  if (hard === undefined) return null
  return hard === 'unlimited' ? Infinity : Number(hard)
}

/** Whether a row of a /proc/PID/limits is about this one. */
export const isRowOf = (row: string, name: keyof Rlimits) => row.startsWith(rows[name])

/** prlimit(1) of util-linux, or null where it is not installed. */
export function findPrlimit(): string | null {
  return ['/usr/bin/prlimit', '/bin/prlimit'].find((path) => existsSync(path)) ?? null
}
