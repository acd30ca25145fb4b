package giveway.yarn;

import java.io.IOException;
import java.util.Optional;
import org.apache.hadoop.yarn.ams.ApplicationMasterServiceContext;
import org.apache.hadoop.yarn.ams.ApplicationMasterServiceProcessor;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;

/**
 * Reads progress and final status from the requests of application masters, and adds the sidecar's orders to pause and resume containers to them. It
 * removes the answers to those from the responses, so that application masters see nothing of them.
 *
 * <p>Set it in {@code yarn.resourcemanager.application-master-service.processors}. It also starts the connection to the sidecar, because it is the only
 * plug-in class that receives the ResourceManager's context.
 */
public class GivewayProcessor implements ApplicationMasterServiceProcessor {
  private ApplicationMasterServiceProcessor next;
  private RMContext context;

  @Override
  public void init(ApplicationMasterServiceContext serviceContext, ApplicationMasterServiceProcessor nextProcessor) {
    next = nextProcessor;
    try {
      context = (RMContext) serviceContext;
      GivewayPlugin.start(context);
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
    }
  }

  @Override
  public void registerApplicationMaster(
      ApplicationAttemptId attempt, RegisterApplicationMasterRequest request, RegisterApplicationMasterResponse response)
      throws IOException, YarnException {
    ours(attempt).ifPresent(GivewayPlugin::applicationMasterRegistered);
    next.registerApplicationMaster(attempt, request, response);
  }

  @Override
  public void allocate(ApplicationAttemptId attempt, AllocateRequest request, AllocateResponse response) throws YarnException {
    Optional<SchedulerApplicationAttempt> application = ours(attempt);
    if (application.isPresent()) {
      GivewayPlugin.beforeAllocate(attempt, request);
    }
    next.allocate(attempt, request, response);
    application.ifPresent(ours -> {
      GivewayPlugin.afterAllocate(ours, response);
      GivewayPlugin.progressReported(ours, request.getProgress());
    });
  }

  @Override
  public void finishApplicationMaster(
      ApplicationAttemptId attempt, FinishApplicationMasterRequest request, FinishApplicationMasterResponse response) {
    ours(attempt).ifPresent(application -> GivewayPlugin.applicationMasterFinished(application, request.getFinalApplicationStatus()));
    next.finishApplicationMaster(attempt, request, response);
  }

  /** The application, if it is in a queue with Giveway's ordering policy. Other applications are left alone. */
  private Optional<SchedulerApplicationAttempt> ours(ApplicationAttemptId attempt) {
    try {
      SchedulerApplicationAttempt application = ((AbstractYarnScheduler<?, ?>) context.getScheduler()).getApplicationAttempt(attempt);
      return Optional.ofNullable(application).filter(ClusterStateEncoder::isInGivewayQueue);
    } catch (Throwable t) {
      GivewayPlugin.logFault(t);
      return Optional.empty();
    }
  }
}
