import { z } from 'zod'

/** How strong a cell is. A name enters this list with its driver. `bwrap` and `seatbelt` are one rung of the ladder, on Linux and on
 *  macOS. */
export const Rung = z.enum(['none', 'bwrap', 'seatbelt', 'container', 'gvisor', 'microvm'])
export type Rung = z.infer<typeof Rung>

/** What a machine can have at all, from the weakest on. */
export const rungsOf = (platform: string): readonly Rung[] =>
  platform === 'darwin' ? ['none', 'seatbelt'] : Rung.options.filter((rung) => rung !== 'seatbelt')

/** The rung of sessions that name none. */
export const usualRung = (platform: string): Rung => (platform === 'darwin' ? 'seatbelt' : 'bwrap')

/** Whether a session of this rung can have the network of the host; the others have none to share. */
export const sharesHostNetwork = (rung: Rung): boolean => rung === 'none' || rung === 'bwrap'

/** Rungs that nobody has run on real hardware yet. */
export const untestedRungs: readonly Rung[] = ['seatbelt']

/** What makes the cells of the rung `container`: Podman without root, or a daemon of root's. */
export const ContainerEngine = z.enum(['podman', 'podman-rootful', 'docker'])
export type ContainerEngine = z.infer<typeof ContainerEngine>

/** Why the sessions of a daemon cannot have this engine; null when nothing speaks against it. */
export function engineRefusal(engine: ContainerEngine, daemon: { readonly root: boolean }): EngineRefusal | null {
  if (engine === 'podman' || !daemon.root) return null
  return {
    what: `the daemon runs as root, so each keeper is a user of its own, and one that may use "${engine}" would be root as well`,
    remedy: 'Write container_engine: podman, which needs no root, or run the daemon as an ordinary user',
  }
}
type EngineRefusal = { readonly what: string; readonly remedy: string }

/** Whether a limit really holds: by the kernel, by a watcher that ends the cell, or not at all. */
export const Enforcement = z.enum(['enforced', 'watched', 'not enforced'])
export type Enforcement = z.infer<typeof Enforcement>

export const limitNames = ['memory', 'processes', 'cpu', 'disk', 'file_size', 'open_files', 'tmp'] as const
export const LimitName = z.enum(limitNames)
export type LimitName = z.infer<typeof LimitName>

/** How many times longer something takes. */
export const Slowness = z.number().min(1).max(100)

/** One limit as it is in force in a live cell. */
export const LimitInForce = z.object({
  name: LimitName,
  /** In words: `2 GiB`, `512`. */
  value: z.string(),
  enforcement: Enforcement,
  /** By what means, or why not. */
  how: z.string(),
  /** Of `cpu`, where it is much: how many times longer than beside the cell everything takes in it. */
  slowness: Slowness.optional(),
})
export type LimitInForce = z.infer<typeof LimitInForce>

/** By how much whoever waits for something that a cell does is to wait longer. */
export const slownessOf = (limits: readonly LimitInForce[]): number => limits.find(({ name }) => name === 'cpu')?.slowness ?? 1
