import { z } from 'zod'
import { AuditKind } from './audit.ts'
import { DoctorReport } from './doctor.ts'
import { Digest } from './actions.ts'
import { Event, GrantScope, NodeName, RequestAction, RequestAnswer, Span, Tokens } from './events.ts'
import { failureCodes } from './failures.ts'
import { SigningKey } from './heads.ts'
import { HouseEvent } from './house.ts'
import { RequestId, SessionId, TokenId } from './ids.ts'
import { ProviderKind } from './link.ts'
import { PolicyName, Role, Share, ShareAccess, User, UserName } from './people.ts'
import { Micros, Nanos } from './money.ts'
import { PolicyProblem, Rule } from './policy.ts'
import {
  BacktestPolicy,
  CheckPolicy,
  ExplainAction,
  Explained,
  PolicyBacktest,
  PolicyCheck,
  PolicyProposed,
  PolicyTested,
  PolicyView,
  ProposePolicy,
  ShowPolicy,
  TestPolicy,
} from './policy-api.ts'
import { Rung } from './rungs.ts'
import { ModelName, Network, NewPrompt, PromptReceipt, Session, SessionOptions, SessionState } from './sessions.ts'

/** Where the API lives on every door that speaks HTTP. */
export const apiRoot = '/api/v1'

/** One call of the HTTP API. The door, the client and the OpenAPI document are all made from it. */
export type Route = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  readonly path: string
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly status: 200 | 201 | 202
  readonly response: z.ZodType
  /** The same URL streams as server-sent events when the client accepts them. */
  readonly streams?: boolean
  /** Answers with lines of JSON, one by one. */
  readonly lines?: boolean
  /** Open to those who are not logged in: only what logs them in. */
  readonly open?: boolean
}

/** The body of every answer that is not a success. */
export const Problem = z.object({
  error: z.object({
    code: z.enum(Object.keys(failureCodes) as [keyof typeof failureCodes]),
    message: z.string(),
    hint: z.string().optional(),
    /** For `internal`: where the log has the rest. */
    id: z.string().optional(),
  }),
})
export type Problem = z.infer<typeof Problem>

const Done = z.object({ ok: z.literal(true) })
const session = { params: z.strictObject({ id: SessionId }) }

const user = { params: z.strictObject({ name: UserName }) }
const shared = { params: z.strictObject({ id: SessionId, name: UserName }) }
const Shares = z.object({ shares: z.array(Share) })

const Cursor = z.coerce.number().int().min(0)
const EventPage = z.object({
  events: z.array(Event),
  /** Whether there is more in the direction that was asked for. */
  more: z.boolean(),
})
export const eventsPerPageMax = 1000
const EventRange = z.strictObject({
  after: Cursor.optional().describe('Only events with a greater number, oldest first'),
  before: Cursor.optional().describe('Only events with a smaller number, the newest of them, oldest first'),
  limit: z.coerce.number().int().min(1).max(eventsPerPageMax).optional(),
})

export const CreateSession = SessionOptions.extend({
  prompt: NewPrompt.omit({ idempotency_key: true, mode: true }).optional(),
  idempotency_key: z.string().min(1).max(200).optional(),
})
export type CreateSession = z.infer<typeof CreateSession>

export const ChangeSession = SessionOptions.pick({ name: true, model: true, autonomy: true })
  .extend({ budget_micros: Micros.nullable() })
  .partial()
export type ChangeSession = z.infer<typeof ChangeSession>

export const ForkSession = z.strictObject({
  name: SessionOptions.shape.name,
  at: z.int().min(0).optional().describe('The conversation up to this event; all of it otherwise. Files are always those of now'),
  share_workspace: z.boolean().optional().describe('Work in the same folder, as the same user, instead of in a copy of it'),
})
export type ForkSession = z.infer<typeof ForkSession>

export const Request = z.object({
  id: RequestId,
  session: SessionId,
  session_name: z.string(),
  action: RequestAction,
  digest: Digest.nullable().describe('Of what the action means: what an allowance is bound to'),
  why: z.string().nullable().describe('Why it is asked'),
  rule: Rule.nullable().describe('The rule that would settle it from now on'),
  rule_refused: z.string().nullable().describe('Why there is no such rule'),
  opened_at: z.int(),
  expires_at: z.int().nullable().describe('Nobody can answer it after this'),
  deferred: z.boolean().describe('Somebody has said "not now"'),
  answer: RequestAnswer.nullable(),
  answered_at: z.int().nullable(),
  answered_by: z.string().nullable(),
  answered_from: z.string().nullable().describe('The door that the answer came by'),
})
export type Request = z.infer<typeof Request>

export const AnswerRequest = z.discriminatedUnion('decision', [
  z.strictObject({
    decision: z.literal('allow'),
    scope: GrantScope.optional().describe(
      'How far it reaches: this action once, this session, or a rule for all; once otherwise',
    ),
    answers: RequestAnswer.shape.answers.describe("To a question: each question's answer, by its text"),
  }),
  z.strictObject({ decision: z.literal('deny'), reason: RequestAnswer.shape.reason.describe('The agent reads it') }),
  z.strictObject({ decision: z.literal('later') }).describe('Not now: it stays open, and the session waits without a cell'),
])
export type AnswerRequest = z.infer<typeof AnswerRequest>

export const Token = z.object({
  id: TokenId,
  user: z.string().describe('Whose it is'),
  name: z.string(),
  kind: z.enum(['token', 'login']),
  created_at: z.int(),
  used_at: z.int().nullable(),
  expires_at: z.int().nullable(),
})
export type Token = z.infer<typeof Token>

export const WhoAmI = z.object({ user: User, token: z.string().nullable(), door: z.string() })
export type WhoAmI = z.infer<typeof WhoAmI>

export const AddUser = z.strictObject({
  name: UserName,
  role: Role,
  policy: PolicyName.optional().describe('Which named policy the sessions of an agent are held to'),
})
export type AddUser = z.infer<typeof AddUser>
export const ChangeUser = z.strictObject({ role: Role.optional(), policy: PolicyName.nullable().optional() })
export type ChangeUser = z.infer<typeof ChangeUser>

export const CredentialSource = z.discriminatedUnion('from', [
  z.strictObject({ from: z.literal('none') }),
  z.strictObject({ from: z.literal('key'), key: z.string().min(1).max(10_000) }),
  z.strictObject({ from: z.literal('env'), name: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,200}$/) }),
  z.strictObject({ from: z.literal('file'), path: z.string().startsWith('/').max(4096) }),
])
export const PutProvider = z.strictObject({
  kind: ProviderKind.exclude(['rehearsal']),
  base_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('Required for `local`'),
  auth: z.enum(['api_key', 'oauth', 'bearer', 'none']).optional(),
  credential: CredentialSource,
  model: ModelName.optional().describe('The model of sessions that name none'),
  use: z.boolean().optional().describe('Make it the provider of sessions that name none'),
  test: z.boolean().optional().describe('Make a test call before anything is stored; on by default'),
})
export type PutProvider = z.infer<typeof PutProvider>

export const ProviderView = z.object({
  name: z.string(),
  kind: ProviderKind,
  base_url: z.string().nullable(),
  model: z.string(),
  credential: z.string().describe('In words, never the credential itself'),
  in_use: z.boolean(),
})
export type ProviderView = z.infer<typeof ProviderView>

export const ProviderVerdict = z.object({
  verdict: z.enum(['ok', 'refused', 'unreachable', 'incompatible']),
  message: z.string(),
})
export type ProviderVerdict = z.infer<typeof ProviderVerdict>

/** A keeper: what it does, and how its model calls fare. */
export const Worker = z.object({
  /** The session that it tends, or the one that it will. */
  session: SessionId,
  name: z.string().nullable(),
  status: z.enum(['idle', 'busy', 'unhealthy']),
  rung: Rung,
  /** 0 for one that waits for a session. */
  sessions: z.int(),
  requests: z.int(),
  errors: z.int(),
  mean_ms: z.int().nullable(),
})
export type Worker = z.infer<typeof Worker>

export const Usage = z.object({
  total: z.object({ cost_micros: Micros, calls: z.int() }),
  simulated: z.object({ cost_micros: Micros, calls: z.int() }).describe('Play money of the rehearsal provider'),
  days: z.array(z.object({ day: z.string(), simulated: z.boolean(), cost_micros: Micros, calls: z.int() })),
  sessions: z.array(z.object({ id: SessionId, name: z.string(), simulated: z.boolean(), cost_micros: Micros, calls: z.int() })),
  models: z.array(z.object({ model: z.string(), simulated: z.boolean(), cost_micros: Micros, calls: z.int() })),
})
export type Usage = z.infer<typeof Usage>

/** One line of what was spent, summed up by session, group, day or model. */
export const Spending = z.object({
  key: z.string().describe('The id of the session, the name of the group (empty without one), the day (UTC) or the model'),
  name: z.string().nullable().describe('Of a session'),
  simulated: z.boolean().describe('Play money of the rehearsal provider'),
  calls: z.int(),
  tokens: Tokens,
  cost_micros: Micros,
  cost_nanos: Nanos.describe('The same to the nano-USD'),
})
export type Spending = z.infer<typeof Spending>

const BudgetSpan = z.object({
  spent_micros: Micros,
  cap_micros: Micros.nullable(),
  ends_at: z.int().nullable().describe('When the day (UTC) or the tick is over'),
})
export const BudgetView = z.object({
  node: z.string().describe('owner, policy/NAME or group/NAME'),
  simulated: z.boolean().describe('Play money has sums of its own, under the same caps'),
  life: BudgetSpan,
  day: BudgetSpan,
  tick: BudgetSpan,
})
export type BudgetView = z.infer<typeof BudgetView>

export const SetBudget = z.strictObject({
  node: NodeName.describe('owner or group/NAME'),
  per: Span.describe('Over its whole life, for each day (UTC) or for each tick'),
  budget_micros: Micros.nullable().describe('Null for no limit'),
})
export type SetBudget = z.infer<typeof SetBudget>

/** What went through a session's net window, by host. */
export const NetHost = z.object({
  host: z.string().nullable().describe('None for what named no host, or for the rest of more hosts than are told apart'),
  port: z.int().nullable(),
  connections: z.int(),
  bytes_out: z.int(),
  bytes_in: z.int(),
  blocked: z.int(),
  why: z.string().nullable().describe('Why the last call was blocked'),
  secrets: z.array(z.object({ name: z.string(), count: z.int() })),
  last_at: z.int(),
})
export type NetHost = z.infer<typeof NetHost>

export const SearchHit = z.object({
  session: SessionId,
  session_name: z.string(),
  seq: z.int(),
  at: z.int(),
  type: z.string(),
  /** The place of the hit, with the words found between « and ». */
  snippet: z.string(),
})
export type SearchHit = z.infer<typeof SearchHit>

export const Status = z.object({
  version: z.string(),
  pid: z.int(),
  url: z.string(),
  started_at: z.int(),
  state_folder: z.string(),
  rung: Rung,
  rung_available: z.boolean(),
  rung_missing: z.array(z.object({ what: z.string(), remedy: z.string() })),
  provider: z.string(),
  provider_trouble: z.string().nullable().describe('Why its credential cannot be used, if it cannot'),
  simulated: z.boolean(),
  gate: z.enum(['up', 'down']),
  sessions: z.record(SessionState, z.int()),
  keepers: z.int(),
  policy_trouble: z.array(PolicyProblem).describe('Why a policy file cannot be used; what it said before stays in force'),
})
export type Status = z.infer<typeof Status>

const verb = (path: string, summary: string) =>
  ({ method: 'POST', path: `/sessions/:id/${path}`, summary, ...session, status: 200, response: Session }) as const

export const api = {
  createSession: {
    method: 'POST',
    path: '/sessions',
    summary: 'Create a session; returns at once',
    body: CreateSession,
    status: 201,
    response: Session,
  },
  listSessions: {
    method: 'GET',
    path: '/sessions',
    summary: 'Sessions, the most recently active first',
    query: z.strictObject({
      archived: z.enum(['true', 'false']).optional(),
      state: SessionState.optional(),
      before: Cursor.optional().describe('Only sessions last active before this time, for the next page'),
      limit: z.coerce.number().int().min(1).max(500).optional(),
    }),
    status: 200,
    response: z.object({ sessions: z.array(Session), more: z.boolean() }),
  },
  getSession: { method: 'GET', path: '/sessions/:id', summary: 'One session', ...session, status: 200, response: Session },
  changeSession: {
    method: 'PATCH',
    path: '/sessions/:id',
    summary: 'Change name, model, budget or autonomy',
    ...session,
    body: ChangeSession,
    status: 200,
    response: Session,
  },
  deleteSession: {
    method: 'DELETE',
    path: '/sessions/:id',
    summary: 'Archive a session: its log stays',
    ...session,
    status: 200,
    response: Session,
  },
  purgeSession: {
    method: 'POST',
    path: '/sessions/:id/purge',
    summary: 'Remove an archived session for good, with its log and workspace',
    ...session,
    body: z.strictObject({ confirm: SessionId }),
    status: 200,
    response: Done,
  },
  prompt: {
    method: 'POST',
    path: '/sessions/:id/prompts',
    summary: 'Send a prompt',
    ...session,
    body: NewPrompt,
    status: 202,
    response: PromptReceipt,
  },
  interrupt: {
    ...verb('interrupt', 'End the running turn'),
    body: z.strictObject({ drop_queued: z.boolean().optional() }).optional(),
  },
  warm: {
    ...verb('warm', 'Start cell and agent ahead of a prompt that is being written; they leave when none comes'),
    status: 202,
  },
  pause: verb('pause', 'No new model call or tool starts; running ones finish'),
  resume: verb('resume', 'Go on after a pause'),
  stop: verb('stop', 'End the cell; the workspace stays'),
  start: verb('start', 'Make a stopped session ready again'),
  archive: verb('archive', 'End the session for good; it becomes read-only'),
  fork: {
    method: 'POST',
    path: '/sessions/:id/fork',
    summary: 'A new session with a copy of the conversation, up to an event if one is named, and of the workspace as it is now',
    ...session,
    body: ForkSession.optional(),
    status: 201,
    response: Session,
  },
  sessionNet: {
    method: 'GET',
    path: '/sessions/:id/net',
    summary: 'What left a session and what was blocked, by host',
    ...session,
    status: 200,
    response: z.object({ network: Network, hosts: z.array(NetHost) }),
  },
  sessionEvents: {
    method: 'GET',
    path: '/sessions/:id/events',
    summary: 'Events of a session by number; as a stream, also what is being said right now',
    ...session,
    query: EventRange,
    status: 200,
    response: EventPage,
    streams: true,
  },
  events: {
    method: 'GET',
    path: '/events',
    summary: 'Events of all sessions by position',
    query: EventRange,
    status: 200,
    response: EventPage,
    streams: true,
  },
  listRequests: {
    method: 'GET',
    path: '/requests',
    summary: 'What waits for an answer',
    query: z.strictObject({ all: z.enum(['true', 'false']).optional(), session: SessionId.optional() }),
    status: 200,
    response: z.object({ requests: z.array(Request) }),
  },
  getRequest: {
    method: 'GET',
    path: '/requests/:id',
    summary: 'One request',
    params: z.strictObject({ id: RequestId }),
    status: 200,
    response: Request,
  },
  answerRequest: {
    method: 'POST',
    path: '/requests/:id/answer',
    summary: 'Answer a request; exactly one answer wins',
    params: z.strictObject({ id: RequestId }),
    body: AnswerRequest,
    status: 200,
    response: Request,
  },
  search: {
    method: 'GET',
    path: '/search',
    summary: 'Full-text search over prompts, text, tool inputs and outputs',
    query: z.strictObject({
      q: z.string().min(1).max(500),
      session: SessionId.optional(),
      limit: z.coerce.number().int().min(1).max(200).optional(),
    }),
    status: 200,
    response: z.object({ hits: z.array(SearchHit) }),
  },
  usage: {
    method: 'GET',
    path: '/usage',
    summary: 'What was spent, by day, session and model',
    query: z.strictObject({ session: SessionId.optional() }),
    status: 200,
    response: Usage,
  },
  spending: {
    method: 'GET',
    path: '/spending',
    summary: 'What was spent, summed up by session, group, day or model; as CSV when the client accepts text/csv',
    query: z.strictObject({
      by: z.enum(['session', 'group', 'day', 'model']),
      since: z.iso.date().optional().describe('The first day, UTC'),
      session: SessionId.optional(),
    }),
    status: 200,
    response: z.object({ spending: z.array(Spending) }),
  },
  listBudgets: {
    method: 'GET',
    path: '/budgets',
    summary: 'What the whole house and each group may spend, and have spent',
    status: 200,
    response: z.object({ budgets: z.array(BudgetView) }),
  },
  setBudget: {
    method: 'POST',
    path: '/budgets',
    summary: 'Set what the whole house or a group may spend; calls that wait for it go on',
    body: SetBudget,
    status: 200,
    response: z.object({ budgets: z.array(BudgetView) }),
  },
  workers: {
    method: 'GET',
    path: '/workers',
    summary: 'Every keeper: idle, busy or unhealthy, its rung and its model calls',
    status: 200,
    response: z.object({ workers: z.array(Worker) }),
  },
  listProviders: {
    method: 'GET',
    path: '/providers',
    summary: 'Where model calls can go',
    status: 200,
    response: z.object({ providers: z.array(ProviderView) }),
  },
  putProvider: {
    method: 'PUT',
    path: '/providers/:name',
    summary: 'Add or replace a provider; a key is stored encrypted',
    params: z.strictObject({ name: z.string().regex(/^[a-z][a-z0-9-]{0,39}$/) }),
    body: PutProvider,
    status: 200,
    response: z.object({ provider: ProviderView, verdict: ProviderVerdict.nullable() }),
  },
  useProvider: {
    method: 'POST',
    path: '/providers/:name/use',
    summary: 'Make it the provider of sessions that name none',
    params: z.strictObject({ name: z.string().max(40) }),
    status: 200,
    response: ProviderView,
  },
  testProvider: {
    method: 'POST',
    path: '/providers/:name/test',
    summary: 'Make one small call',
    params: z.strictObject({ name: z.string().max(40) }),
    status: 200,
    response: ProviderVerdict,
  },
  deleteProvider: {
    method: 'DELETE',
    path: '/providers/:name',
    summary: 'Forget a provider and its credential',
    params: z.strictObject({ name: z.string().max(40) }),
    status: 200,
    response: Done,
  },
  listTokens: {
    method: 'GET',
    path: '/tokens',
    summary: 'Tokens and logins',
    status: 200,
    response: z.object({ tokens: z.array(Token) }),
  },
  createToken: {
    method: 'POST',
    path: '/tokens',
    summary: 'A token for a program; its secret is shown once',
    body: z.strictObject({
      name: z.string().trim().min(1).max(100),
      days: z.int().min(1).max(3650).optional(),
      user: UserName.optional().describe('Whose it is to be; your own otherwise'),
    }),
    status: 201,
    response: z.object({ token: Token, secret: z.string() }),
  },
  revokeToken: {
    method: 'DELETE',
    path: '/tokens/:id',
    summary: 'Revoke a token or a login; its open streams end',
    params: z.strictObject({ id: TokenId }),
    status: 200,
    response: Done,
  },
  createLoginLink: {
    method: 'POST',
    path: '/login-links',
    summary: 'A link that logs one browser in, once',
    status: 201,
    response: z.object({ url: z.string(), expires_at: z.int() }),
  },
  login: {
    method: 'POST',
    path: '/login',
    summary: 'Exchange the secret of a login link for a cookie',
    body: z.strictObject({ secret: z.string().min(1).max(200) }),
    status: 200,
    response: Done,
    open: true,
  },
  listUsers: {
    method: 'GET',
    path: '/users',
    summary: 'People and programs',
    status: 200,
    response: z.object({ users: z.array(User) }),
  },
  addUser: { method: 'POST', path: '/users', summary: 'Add a person or a program', body: AddUser, status: 201, response: User },
  changeUser: {
    method: 'PATCH',
    path: '/users/:name',
    summary: 'Change a role, or the policy of an agent; it holds from the next call on',
    ...user,
    body: ChangeUser,
    status: 200,
    response: User,
  },
  removeUser: {
    method: 'DELETE',
    path: '/users/:name',
    summary: 'Remove somebody: their tokens, logins and open streams end at once',
    ...user,
    status: 200,
    response: Done,
  },
  inviteUser: {
    method: 'POST',
    path: '/users/:name/invite',
    summary: 'A link that logs this person in, once',
    ...user,
    status: 201,
    response: z.object({ url: z.string(), expires_at: z.int() }),
  },
  listShares: {
    method: 'GET',
    path: '/sessions/:id/shares',
    summary: 'Who else may work on a session or look at it',
    ...session,
    status: 200,
    response: Shares,
  },
  shareSession: {
    method: 'PUT',
    path: '/sessions/:id/shares/:name',
    summary: 'Let a member work on a session, or show it to somebody',
    ...shared,
    body: z.strictObject({ access: ShareAccess }),
    status: 200,
    response: Shares,
  },
  unshareSession: {
    method: 'DELETE',
    path: '/sessions/:id/shares/:name',
    summary: 'Take a session back from somebody; their open streams of it end',
    ...shared,
    status: 200,
    response: Shares,
  },
  exportSession: {
    method: 'GET',
    path: '/sessions/:id/export',
    summary: "A session's whole log with its hash chain and a signed head, as lines of JSON",
    ...session,
    status: 200,
    response: z.unknown(),
    lines: true,
  },
  exportAll: {
    method: 'GET',
    path: '/export',
    summary: 'Every log, and last that of the house',
    status: 200,
    response: z.unknown(),
    lines: true,
  },
  audit: {
    method: 'GET',
    path: '/audit',
    summary: 'Decisions, answers, grants, money, secrets: who did what, the newest first',
    query: z.strictObject({
      session: SessionId.optional(),
      kind: AuditKind.optional(),
      since: z.coerce.number().int().min(0).optional(),
      before: Cursor.optional().describe('Where the page before this one ended'),
    }),
    status: 200,
    response: z.object({ entries: z.array(Event), before: z.int().nullable() }),
  },
  houseEvents: {
    method: 'GET',
    path: '/house/events',
    summary: "What happened in the house and is no session's: people, tokens, logins, providers, policy, panic",
    query: z.strictObject({ before: Cursor.optional(), limit: z.coerce.number().int().min(1).max(eventsPerPageMax).optional() }),
    status: 200,
    response: z.object({ events: z.array(HouseEvent), more: z.boolean() }),
  },
  signingKey: {
    method: 'GET',
    path: '/signing-key',
    summary: 'The key that signs the heads of exports',
    status: 200,
    response: SigningKey,
  },
  showPolicy: {
    method: 'GET',
    path: '/policy',
    summary: 'What is in force for the house, or for one session, and where each rule stands',
    query: ShowPolicy,
    status: 200,
    response: PolicyView,
  },
  reloadPolicy: {
    method: 'POST',
    path: '/policy/reload',
    summary: 'Look at the policy files again, now',
    status: 200,
    response: PolicyCheck,
  },
  checkPolicy: {
    method: 'POST',
    path: '/policy/check',
    summary: 'What is wrong with a policy file, and where',
    body: CheckPolicy,
    status: 200,
    response: PolicyCheck,
  },
  explainAction: {
    method: 'POST',
    path: '/policy/explain',
    summary: 'How an action would be decided, by which rule, and what would change it',
    body: ExplainAction,
    status: 200,
    response: Explained,
  },
  testPolicy: {
    method: 'POST',
    path: '/policy/test',
    summary: 'Whether actions are decided as a list expects',
    body: TestPolicy,
    status: 200,
    response: PolicyTested,
  },
  proposePolicy: {
    method: 'POST',
    path: '/policy/propose',
    summary: 'The smallest policy that would have allowed what sessions did',
    body: ProposePolicy,
    status: 200,
    response: PolicyProposed,
  },
  backtestPolicy: {
    method: 'POST',
    path: '/policy/backtest',
    summary: 'What a policy, or one more rule, would have done to past sessions',
    body: BacktestPolicy,
    status: 200,
    response: PolicyBacktest,
  },
  whoAmI: { method: 'GET', path: '/whoami', summary: 'Who you are here', status: 200, response: WhoAmI },
  logout: { method: 'POST', path: '/logout', summary: 'End this login', status: 200, response: Done },
  status: { method: 'GET', path: '/status', summary: 'The daemon, its rung and provider', status: 200, response: Status },
  health: {
    method: 'GET',
    path: '/health',
    summary: 'Whether the daemon answers',
    status: 200,
    response: z.object({ ok: z.boolean(), gate: z.boolean(), store: z.boolean() }),
  },
  doctor: {
    method: 'GET',
    path: '/doctor',
    summary: 'What isolation this machine can give',
    status: 200,
    response: DoctorReport,
  },
  panic: {
    method: 'POST',
    path: '/panic',
    summary: 'Stop every agent, revoke every lease, close every window',
    status: 200,
    response: z.object({ sessions: z.int() }),
  },
  shutdown: {
    method: 'POST',
    path: '/shutdown',
    summary: 'End the daemon; with `all`, keepers and gate as well',
    body: z.strictObject({ all: z.boolean().optional() }).optional(),
    status: 200,
    response: z.object({ left_running: z.int() }),
  },
} as const satisfies Record<string, Route>

export type Api = typeof api
export type ApiName = keyof Api
