/** Who has panicked, until somebody lifts it: everybody's, where no user is named, or one user's own sessions. */
export const panics = `
create table if not exists panic (
  user_id text not null,
  at integer not null,
  actor text not null,
  door text not null,
  primary key (user_id)
) strict, without rowid;
`
