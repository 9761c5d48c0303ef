// A migration of node-pg-migrate that takes its time. DATABASE_URL says where; the argument is the migrations' folder.
import { runner } from "node-pg-migrate";

await runner({
  databaseUrl: process.env.DATABASE_URL,
  dir: process.argv[2],
  direction: "up",
  migrationsTable: "pgmigrations",
  log: () => {},
});
