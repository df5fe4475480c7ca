import { type Actor, may } from '@anchorhold/core/actors'
import { requirePatterns } from '@anchorhold/core/policy/repo-filters'
import type { CreateSession } from '@anchorhold/protocol/api/sessions'
import { Failure } from '@anchorhold/protocol/failures'
import { newSessionId } from '@anchorhold/protocol/ids'
import { nanosOfMicros } from '@anchorhold/protocol/money'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import type { Session } from '@anchorhold/protocol/sessions'
import { randomUUID } from 'node:crypto'
import type { Config } from '../../config.ts'
import { makeFolder } from '../../folders.ts'
import type { Look } from '../../processes/doctor-process.ts'
import type { User } from '../../processes/spare-keepers.ts'
import type { ProviderRow } from '../../store/store.ts'
import { markSettled, markUnsettled } from '../../workspace/unsettled.ts'
import { prepareWorkspace, undoFolder } from '../../workspace/workspace.ts'
import { requireCredentials } from '../secrets/credentials.ts'
import { deliverSoon } from '../prompts/deliver.ts'
import { enqueue, nameFrom } from '../prompts/enqueue.ts'
import { rootFor } from '../keepers/images.ts'
import { requireInside } from '../secrets/inside-secrets.ts'
import { networkFor } from '../policy/network.ts'
import { requireCalm } from '../house/panic.ts'
import { admit, requireRoom } from '../policy/policy.ts'
import { transaction } from '../../transaction.ts'
import { by, type Delivers, type Judges, ownerOf, type Parts, require, shown } from '../parts.ts'
import { providerFor } from '../money/providers.ts'
import { repoFor } from '../workspace/repos.ts'
import { type Keep, onceForKey } from './session-keys.ts'
import { requireProof } from '../people/step-up.ts'
import { refuseWider, rungFor } from './widening.ts'

/** Makes a session and returns at once; cell and agent start behind it. */
export async function createSession(
  parts: Delivers & Judges & Pick<Parts, 'doctor' | 'folders' | 'newUser' | 'random'>,
  actor: Actor,
  input: CreateSession,
): Promise<Session> {
  require(parts, actor, 'session.create')
  const provider = providerFor(parts, input.provider ?? null)
  const call = { key: input.idempotency_key, provider: provider.name, asked: input }
  return onceForKey(parts, actor, call, (keep) => make(parts, actor, input, provider, keep))
}

async function make(
  parts: Delivers & Judges & Pick<Parts, 'doctor' | 'folders' | 'newUser' | 'random'>,
  actor: Actor,
  { prompt, idempotency_key: key, ...options }: CreateSession,
  provider: ProviderRow,
  keep: Keep,
): Promise<Session> {
  requirePatterns(options.repo_filter)
  requireCalm(parts, ownerOf(actor))
  const model = options.model ?? provider.model
  const wanted = {
    options,
    owner: ownerOf(actor),
    rung: rungFor(parts.config, actor, options.rung),
    provider,
    model,
    budgetNanos: options.budget_micros === undefined ? null : nanosOfMicros(options.budget_micros),
    hasKey: key !== undefined,
  }
  const { held, rung, repoFilter, budgetNanos } = admit(parts, actor, wanted)
  refuseWider(parts.config, actor, options, rung)
  requireInside(parts, actor, options)
  if (rung === 'none') requireProof(parts, actor, 'start a session without a wall')
  requireRoom(parts, actor, held)
  rootFor(parts, rung, options.image)
  await requireRung(parts, rung, held.rung)
  await requireToolchains(parts, rung, options)
  if (options.extras !== undefined && rung !== 'container' && Object.values(options.extras).includes(true))
    throw new Failure('bad_request', `A cell of rung "${rung}" can have neither GPU, sudo nor containers of its own`, {
      hint: 'Choose the rung "container"',
    })
  const spend = options.spend ?? parts.config.spend
  const network = networkFor(parts.config, rung, options.network, held)
  if (network === 'host') requireProof(parts, actor, 'start a session on the host network')
  requireCredentials(parts, network)
  const repo_filter = repoFilter ?? options.repo_filter ?? usualFilter(parts.config, options)
  // A cell that stands ready has a folder of its own, and nothing but what every cell has.
  const { workspace: folder, toolchains, extras, image, secrets } = options
  const isPlain = [folder, toolchains, extras, image, secrets].every((one) => one === undefined)
  const ready = isPlain && network !== 'host' ? parts.keepers.claimReadyCell(rung) : null
  const id = ready?.session ?? newSessionId(parts.random)
  const fresh = ready === null ? freshUser(parts) : ready.runAs
  const own = parts.folders.workspace(id)
  markUnsettled(parts.folders, id)
  makeFolder(parts.folders.session(id), 0o700, fresh)
  try {
    const workspace = await prepareWorkspace({
      asked: options.workspace ?? null,
      access: options.workspace_access ?? null,
      own,
      fresh,
      home: parts.config.home,
      reserved: [parts.config.state, parts.config.config],
      within: may(actor, 'session.any_folder') ? null : parts.config.sharedFolders,
      granted: parts.folders.unsettled(id),
    })
    const { path, runAs, grants } = workspace
    // Now that the folder is one that may be used, and before a cell is in it.
    const repo = repoFor(parts, options, workspace)
    makeFolder(parts.folders.session(id), 0o700, runAs)
    makeFolder(parts.folders.home(id), 0o700, runAs)
    transaction(parts, (tx) => {
      keep(tx, id)
      require(tx, actor, 'session.create')
      requireCalm(tx, ownerOf(actor))
      requireRoom(tx, actor, held)
      tx.store.sessions.insert({
        id,
        ownerId: ownerOf(actor),
        options: { ...options, spend, network, repo_filter, ...(repo === null ? {} : { repo }) },
        runAs,
        conversation: randomUUID(),
        conversing: false,
        grants,
      })
      tx.record(id, {
        type: 'session.created',
        body: {
          name: options.name ?? nameFrom(prompt?.text) ?? 'New session',
          rung,
          provider: provider.name,
          model,
          simulated: provider.kind === 'rehearsal',
          workspace: path,
          budget_nanos: budgetNanos,
          forked_from: null,
          on_crash: options.on_crash ?? parts.config.onCrash,
          spend,
          network,
          ...(options.autonomy === undefined ? {} : { autonomy: options.autonomy }),
          ...(secrets === undefined || secrets.length === 0 ? {} : { secrets_inside: secrets }),
          ...by(actor),
        },
      })
      if (prompt !== undefined) enqueue(tx, actor, id, { ...prompt, mode: 'steer' }, 'prompt')
    })
  } catch (error) {
    // What cannot be undone now is left to the next daemon, which finds the folder marked, with no session to own it.
    await undoFolder(parts.folders.session(id), parts.folders.unsettled(id)).then(
      () => markSettled(parts.folders, id),
      (left: unknown) => parts.log(left instanceof Error ? left.message : String(left)),
    )
    throw error
  }
  markSettled(parts.folders, id)
  deliverSoon(parts, id)
  return shown(parts.store.sessions.get(id)!)
}

/** What is in a folder of the session's own was made in its cell: there is nothing to hide. */
export const usualFilter = (config: Pick<Config, 'repoFilter'>, { workspace }: { readonly workspace?: string | undefined }) =>
  workspace === undefined ? 'none' : config.repoFilter

/** What cannot be isolated does not run: the machine is asked before anything is made. Where a policy requires a wall, one with a hole that
 *  cells may meet is none; otherwise `doctor` warns of it. */
export async function requireRung(
  parts: Pick<Parts, 'doctor'>,
  rung: Session['rung'],
  required: Session['rung'] | null,
): Promise<void> {
  const find = async (fresh: boolean) => (await parts.doctor({ fresh, rung })).rungs.find((one) => one.rung === rung)
  const openIn = (one: Awaited<ReturnType<typeof find>>) =>
    required === null || required === 'none' ? [] : (one?.holes ?? []).filter(({ touched }) => touched !== 'no')
  let found = await find(false)
  // What was missing, or had a hole, may have been mended since.
  if (found?.available === false || openIn(found).length > 0) found = await find(true)
  const open = openIn(found)
  if (open.length > 0)
    throw new Failure(
      'cell_unavailable',
      `Cannot start a cell of rung "${rung}": the policy requires "${required}" or stronger, and ${open.map(({ what }) => what).join('; ')}`,
      { hint: [...new Set(open.map(({ remedy }) => remedy))].join('; ') },
    )
  if (found?.available === true) return
  const lacks = found?.missing ?? []
  throw new Failure(
    'cell_unavailable',
    `Cannot start a cell of rung "${rung}": ${lacks.map(({ what }) => what).join('; ') || 'it is not known here'}`,
    {
      hint: lacks.map(({ remedy }) => remedy).join('; ') || 'anchorhold doctor shows what this machine can do',
    },
  )
}

/** The same of toolchains. The owner of a host folder may reach more than doctor, who looks as a user of the session's own: there the
 *  keeper alone can tell. */
async function requireToolchains(
  parts: Pick<Parts, 'config' | 'doctor'>,
  rung: Session['rung'],
  { toolchains = [], workspace, workspace_access: access = 'owner' }: SessionOptions,
): Promise<void> {
  if (parts.config.root && workspace !== undefined && access === 'owner') return
  const lacking = async (look: Look) => {
    const offered = (await parts.doctor(look)).toolchains
    return toolchains.find((wanted) => !offered.some(({ name }) => name === wanted))
  }
  if (toolchains.length === 0 || (await lacking({ fresh: false, rung })) === undefined) return
  // One may have been installed since this rung was looked at.
  const unknown = await lacking({ fresh: false })
  if (unknown === undefined) return
  throw new Failure('cell_unavailable', `There is no toolchain "${unknown}"`, { hint: 'anchorhold doctor names them' })
}

/** For a session that has nobody's folder, as root. */
export const freshUser = (parts: Pick<Parts, 'config' | 'keepers' | 'newUser'>): User | null =>
  parts.config.root ? (parts.keepers.claimUser() ?? parts.newUser()) : null
