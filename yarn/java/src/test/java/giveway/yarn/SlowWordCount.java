package giveway.yarn;

import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Word count whose maps sleep {@code giveway.test.map-ms} for each line and whose reduces sleep {@code giveway.test.reduce-ms} for each word. It sleeps instead of
 * computing, because on two cores a CPU-bound job would measure the machine and not the scheduler. It is submitted as the user {@code giveway.test.user}, if that is
 * set; files still belong to the user that runs the program.
 */
public final class SlowWordCount extends Configured implements Tool {
  /** Emits every word of a line. */
  public static final class Words extends Mapper<LongWritable, Text, Text, IntWritable> {
    private static final IntWritable ONE = new IntWritable(1);

    @Override
    protected void map(LongWritable offset, Text line, Context context) throws IOException, InterruptedException {
      Thread.sleep(context.getConfiguration().getLong("giveway.test.map-ms", 0));
      for (String word : line.toString().split(" ")) {
        context.write(new Text(word), ONE);
      }
    }
  }

  /** Adds the counts of a word. */
  public static final class Sums extends Reducer<Text, IntWritable, Text, IntWritable> {
    @Override
    protected void reduce(Text word, Iterable<IntWritable> counts, Context context) throws IOException, InterruptedException {
      Thread.sleep(context.getConfiguration().getLong("giveway.test.reduce-ms", 0));
      int sum = 0;
      for (IntWritable count : counts) {
        sum += count.get();
      }
      context.write(word, new IntWritable(sum));
    }
  }

  @Override
  public int run(String[] paths) throws Exception {
    String user = getConf().get("giveway.test.user");
    if (user == null) {
      return count(paths);
    }
    return UserGroupInformation.createRemoteUser(user).doAs((PrivilegedExceptionAction<Integer>) () -> count(paths));
  }

  private int count(String[] paths) throws Exception {
    Job job = Job.getInstance(getConf(), "slow word count");
    job.setMapperClass(Words.class);
    job.setReducerClass(Sums.class);
    job.setOutputKeyClass(Text.class);
    job.setOutputValueClass(IntWritable.class);
    FileInputFormat.addInputPath(job, new Path(paths[0]));
    FileOutputFormat.setOutputPath(job, new Path(paths[1]));
    return job.waitForCompletion(true) ? 0 : 1;
  }

  public static void main(String[] args) throws Exception {
    System.exit(ToolRunner.run(new SlowWordCount(), args));
  }
}
