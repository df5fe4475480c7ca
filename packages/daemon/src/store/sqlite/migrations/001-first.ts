export const first = `
create table session (
  id text primary key,
  name text not null default '',
  state text not null default 'creating',
  why text,
  standing text not null,
  options text not null,
  rung text not null default 'bwrap',
  provider text not null default '',
  model text not null default '',
  simulated integer not null default 0,
  workspace text not null default '',
  run_as text,
  conversation text not null,
  conversing integer not null default 0,
  grants text not null default '[]',
  created_at integer not null default 0,
  active_at integer not null default 0,
  archived_at integer,
  last_seq integer not null default 0,
  turns integer not null default 0,
  cost_nanos integer not null default 0,
  budget_nanos integer,
  limits text not null default '[]',
  forked_from text
) strict;
create index session_active on session (archived_at is null, active_at desc);
create index session_tended on session (id) where json_extract(standing, '$.keeper');

create table event (
  pos integer primary key,
  session_id text not null,
  seq integer not null,
  source text not null,
  n integer,
  at integer not null,
  type text not null,
  body text not null,
  unique (session_id, seq),
  unique (source, n)
) strict;

create table prompt (
  id text primary key,
  session_id text not null,
  text text not null,
  images text not null,
  mode text not null,
  cause text not null,
  queued_at integer not null,
  key text,
  state text not null default 'queued',
  unique (session_id, key)
) strict;
create index prompt_queued on prompt (session_id, queued_at) where state = 'queued';

create table request (
  id text primary key,
  session_id text not null,
  action text not null,
  opened_at integer not null,
  answer text,
  answered_at integer,
  answered_by text
) strict;
create index request_open on request (opened_at) where answer is null;
create index request_session on request (session_id);

create table usage (
  day text not null,
  session_id text not null,
  model text not null,
  simulated integer not null,
  calls integer not null,
  cost_nanos integer not null,
  primary key (day, session_id, model, simulated)
) strict, without rowid;
create index usage_session on usage (session_id);

create table token (
  id text primary key,
  name text not null,
  role text not null,
  hash text not null unique,
  created_at integer not null,
  used_at integer,
  expires_at integer
) strict;

create table session_key (
  actor text not null,
  key text not null,
  session_id text not null,
  digest text not null,
  primary key (actor, key)
) strict, without rowid;

create table provider (
  name text primary key,
  kind text not null,
  base_url text,
  auth text not null,
  credential text not null,
  model text not null,
  in_use integer not null default 0
) strict;

create virtual table event_text using fts5 (text, tokenize = 'porter unicode61');
`
