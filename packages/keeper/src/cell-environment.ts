export type CellEnvironment = {
  readonly home: string
  /** Folders of toolchains. */
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** What every program in a cell finds. */
export const cellEnvironment = ({ home, path, env }: CellEnvironment): Record<string, string> => ({
  PATH: [...path, '/usr/local/bin', '/usr/bin', '/bin', '/usr/local/sbin', '/usr/sbin', '/sbin'].join(':'),
  HOME: home,
  USER: 'agent',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  SHELL: '/bin/bash',
  ...env,
})
